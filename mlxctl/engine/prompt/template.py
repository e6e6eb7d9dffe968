"""The chat template as a program: its source, and the arguments that it reads."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from mlxctl import rules
from mlxctl.errors import TemplateError, first_line

# What whoever renders a template hands it, and no person sets.
_GIVEN = {"messages", "add_generation_prompt", "continue_final_message", "raise_exception", "strftime_now", "tools",
          "documents"}  # fmt: skip


class Argument(msgspec.Struct, frozen=True):
    """A variable that a template reads.

    kind: "switch", "text", "list", "object", or "value" where nothing tells. default: what holds without it, where that
    can be read (and is known); values: what it is compared with.
    """

    name: str
    kind: str
    known: bool
    default: Any
    values: list[Any]


def source(tokenizer: Any) -> str | None:
    """The Jinja source of the chat template; None where there is none, or a program of the library in its place, or
    several of which none is the default."""
    if not tokenizer.has_chat_template:
        return None
    template = tokenizer.chat_template
    if isinstance(template, dict):
        template = template.get("default")  # the library renders with no other
    return template if isinstance(template, str) else None


def template_hash(tokenizer: Any) -> str | None:
    """Tells two chat templates apart; None for a tokenizer without one."""
    if not tokenizer.has_chat_template:
        return None
    return hashlib.sha256(repr(tokenizer.chat_template).encode("utf-8", "replace")).hexdigest()[:32]


def unread_arguments(tokenizer: Any, arguments: Mapping[str, Any]) -> list[str]:
    """Names among the template arguments that the chat template never reads."""
    import jinja2

    template = source(tokenizer)
    if not arguments or template is None:
        return []
    try:
        known = _variables(_parsed(template)) | rules.TEMPLATE_KEYWORDS
    except (jinja2.TemplateError, RecursionError):
        return []  # rendering will tell
    return sorted(set(arguments) - known)


def arguments(tokenizer: Any) -> list[Argument]:
    """The variables that the template reads and a person may set, by name. Raises TemplateError.

    The kind and the default are read from how the template uses them: nothing is run.
    """
    template = source(tokenizer)
    if template is None:
        return []
    import jinja2

    try:
        tree = _parsed(template)
        names = _variables(tree) - _GIVEN - set(tokenizer.special_tokens_map) - _own(tree)
    except (jinja2.TemplateError, RecursionError, ValueError) as error:  # also numbers of thousands of digits
        raise TemplateError(f"the chat template cannot be read: {first_line(error)}") from None
    uses = {name: _Uses(name) for name in names}
    for node in tree.find_all(_nodes().Node):
        for name in names & _spoken_of(node):
            uses[name].see(node)
    return [uses[name].argument(_passed(tokenizer)) for name in sorted(names)]


def _spoken_of(node: Any) -> set[str]:
    """The names that a node may tell something of: those that it has itself, and those of its condition."""
    nodes = _nodes()
    near = [*node.iter_child_nodes()] + [operand.expr for operand in getattr(node, "ops", ())]
    found = {child.name for child in near if isinstance(child, nodes.Name)}
    if isinstance(node, nodes.If):
        found |= {name.name for name in node.test.find_all(nodes.Name)}
    return found


def _passed(tokenizer: Any) -> dict[str, Any]:
    """What mlx-lm hands every template, unless it is told otherwise."""
    return {"enable_thinking": tokenizer.has_thinking}


def _nodes() -> Any:
    from jinja2 import nodes

    return nodes


def _parsed(template: str) -> Any:
    """The syntax tree; operators are not computed on the way, as `9**9**9` would be."""
    from jinja2.ext import Extension
    from jinja2.filters import FILTERS
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """The tag of transformers around what the model said."""

        tags = {"generation"}  # noqa: RUF012 as the base class has it

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                extensions=[Generation, "jinja2.ext.loopcontrols"])  # fmt: skip
    environment.intercepted_binops = frozenset(environment.default_binop_table)
    environment.filters = dict.fromkeys((*FILTERS, "tojson", "from_json"), _unfolded())
    return environment.parse(template)


def _unfolded() -> Any:
    """A filter that is not computed while a template is read."""
    from jinja2 import pass_context

    return pass_context(lambda context, value, *rest, **more: value)


def _variables(tree: Any) -> set[str]:
    """Names that a template looks up in what it is handed."""
    from jinja2.meta import find_undeclared_variables

    return find_undeclared_variables(tree) - set(tree.environment.globals)


def _own(tree: Any) -> set[str]:
    """Names that a template gives a value before it reads them: Jinja counts them among what may be handed over where
    that happens in one of several branches."""
    first: dict[str, str] = {}
    for name in _names(tree):
        first.setdefault(name.name, name.ctx)
    return {name for name, context in first.items() if context != "load"}


def _names(node: Any) -> Iterator[Any]:
    """The names in the order in which a template gets to them."""
    nodes = _nodes()
    if isinstance(node, nodes.Name):
        yield node
    parts = [node.node, node.target] if isinstance(node, nodes.Assign) else node.iter_child_nodes()
    for part in parts:
        yield from _names(part)


class _Uses:
    """What a template does with one variable."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.values: list[Any] = []
        self.defaults: list[Any] = []
        self.kinds: set[str] = set()

    def see(self, node: Any) -> None:
        """Take what a node tells; its own children come by themselves."""
        for what in (self._compared, self._tested, self._replaced, self._walked):
            what(node)

    def argument(self, passed: Mapping[str, Any]) -> Argument:
        """What came of it."""
        values: list[Any] = []
        for value in self.values:
            if not isinstance(value, bool | None) and value not in values:
                values.append(value)
        defaults = [passed[self.name]] if self.name in passed else self.defaults
        known = bool(defaults)
        default = defaults[0] if known else None
        return Argument(self.name, self._kind([*self.values, *defaults]), known, default, values)

    def _kind(self, constants: list[Any]) -> str:
        if any(isinstance(value, str) for value in constants):
            return "text"
        if any(isinstance(value, bool) for value in constants):
            return "switch"
        return next((kind for kind in ("list", "object", "switch") if kind in self.kinds), "value")

    def _is_it(self, node: Any) -> bool:
        return isinstance(node, _nodes().Name) and node.name == self.name and node.ctx == "load"

    def _compared(self, node: Any) -> None:
        """`x == "high"`, `x in ["low", "high"]`, `x is true`."""
        nodes = _nodes()
        if isinstance(node, nodes.Compare):
            sides = [node.expr, *(operand.expr for operand in node.ops)]
            if any(map(self._is_it, sides)):
                self.values += [value for side in sides for value in _constants(side)]
        elif isinstance(node, nodes.Test) and self._is_it(node.node) and node.name in ("true", "false"):
            self.values.append(node.name == "true")

    def _tested(self, node: Any) -> None:
        """`if x`, `not x`, `x and …`, `1 if x`."""
        nodes = _nodes()
        tested = [node.test] if isinstance(node, nodes.If | nodes.CondExpr) else []
        tested += [node.node] if isinstance(node, nodes.Not) else []
        tested += [node.left, node.right] if isinstance(node, nodes.And | nodes.Or) else []
        if any(map(self._is_it, tested)):
            self.kinds.add("switch")

    def _replaced(self, node: Any) -> None:
        """`x | default(1)`, `x if x is defined else 1`, and an `if` that sets it where it is not defined."""
        nodes = _nodes()
        if isinstance(node, nodes.Filter) and node.name in ("default", "d") and self._is_it(node.node):
            self.defaults += _constants(node.args[0]) if node.args else [""]
        elif isinstance(node, nodes.CondExpr) and self._is_it(node.expr1) and node.expr2 is not None:
            self.defaults += _constants(node.expr2)
        elif isinstance(node, nodes.If) and self._mentions(node.test):
            for branch in (*node.body, *node.else_):
                if isinstance(branch, nodes.Assign) and getattr(branch.target, "name", None) == self.name:
                    self.defaults += _constants(branch.node)

    def _walked(self, node: Any) -> None:
        """`for y in x`, `x.y`."""
        nodes = _nodes()
        if isinstance(node, nodes.For) and self._is_it(node.iter):
            self.kinds.add("list")
        elif isinstance(node, nodes.Getattr | nodes.Getitem) and self._is_it(node.node):
            self.kinds.add("object")

    def _mentions(self, node: Any) -> bool:
        return self._is_it(node) or any(map(self._is_it, node.find_all(_nodes().Name)))


def _constants(node: Any) -> Iterator[Any]:
    """The values that an expression spells out."""
    nodes = _nodes()
    if isinstance(node, nodes.Const):
        yield from node.value if isinstance(node.value, list | tuple) else (node.value,)
    elif isinstance(node, nodes.List | nodes.Tuple):
        for item in node.items:
            yield from _constants(item)
