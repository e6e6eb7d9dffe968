"""What bash, zsh and fish need to complete mlxctl's command lines: the texts of completions/, which docs.py writes.

Commands, flags and values come from the program, all that happens at TAB from the templates in shells/*.in beside
this file.

A new kind of value takes an entry in command_tree.KINDS, and in each template a function `_mlxctl_KIND`, for fish
`__mlxctl_KIND`.
"""

import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from command_tree import Argument, Command, Flag, Value, first_sentence, program, walk
from mlxctl import options
from mlxctl.engine.demo import BUILTIN_MODELS
from mlxctl.profiles.files import examine

REPO = Path(__file__).parent.parent
TEMPLATES = Path(__file__).with_name("shells")


def _shipped() -> dict[str, str]:
    """The shipped profiles and what each says of itself."""
    found = [examine(path)[0] for path in sorted((REPO / "profiles").glob("*.toml"))]
    return {profile.name: first_sentence(profile.description) for profile in found}


def _builtin() -> list[str]:
    return [f"builtin:{name}" for name in sorted(BUILTIN_MODELS)]


def _keys() -> list[str]:
    """Keys of a profile, as --unset takes them."""
    rows = [row for row in options.options() if row.in_profile]
    return list(dict.fromkeys([*(row.name for row in rows), *(row.key for row in rows)]))


# bash: what may follow, as case statements; a command is profile/show there


def bash() -> str:
    commands = list(walk(program()))
    commands_of = [("/".join(c.path), " ".join(inner.path[-1] for inner in c.commands)) for c in commands]
    flags_of = [("/".join(c.path), " ".join(_names(c.flags))) for c in commands]
    tables = [
        _bash_function("commands", "$1", "commands", commands_of),
        _bash_function("flags", "$1", "flags", flags_of),
        _bash_function("flag_value", "$1/$2", "value", [row for c in commands for row in _bash_flags(c)]),
        _bash_function("free_word", "$1/$2", "value", [row for c in commands for row in _bash_arguments(c)]),
    ]
    return _fill("mlxctl.bash", "\n".join(tables), " ".join(map(_quoted, _shipped())))


def _names(flags: Iterable[Flag]) -> list[str]:
    return [name for flag in flags for name in flag.names]


def _bash_function(name: str, subject: str, variable: str, rows: Iterable[tuple[str, str]]) -> str:
    """A function that sets a variable by its arguments; rows: pattern and words."""
    lines = [f"_mlxctl_{name}() {{", f"    {variable}=", f'    case "{subject}" in']
    for pattern, words in rows:
        if words:
            lines.append(_wrapped(f"{pattern or repr('')})", 4, " \\\n"))
            lines += [_wrapped(f"{variable}='{words}'", 8, "\n"), "        ;;"]
    return "\n".join([*lines, "    esac", "}", ""])


def _wrapped(text: str, indent: int, glue: str) -> str:
    first, then = " " * indent, " " * (indent + 4)
    return glue.join(textwrap.wrap(text, 112, initial_indent=first, subsequent_indent=then, break_on_hyphens=False))


def _bash_flags(command: Command) -> Iterator[tuple[str, str]]:
    """Patterns of flags, and the value these take."""
    by_value: dict[str, list[str]] = {}
    for flag in command.flags:
        if flag.value:
            by_value.setdefault(_bash_value(flag.value), []).extend(flag.names)
    for value, names in by_value.items():
        yield " | ".join("/".join((*command.path, name)) for name in names), value


def _bash_arguments(command: Command) -> Iterator[tuple[str, str]]:
    for place, argument in enumerate(command.arguments):
        if argument.value.kind != "nothing":
            yield "/".join((*command.path, "*" if argument.many else str(place))), _bash_value(argument.value)


def _bash_value(value: Value) -> str:
    return " ".join(["maybe"] * value.optional + [value.kind, *value.words])


# zsh: a function for each command

_ZSH_GROUP = """\
    local curcontext=$curcontext state line
    local -A opt_args
    _arguments -C -S \\
{specs}
    case $state in
    command)
        local -a commands=(
{commands}
        )
        _describe command commands
        ;;
    argument)
        curcontext=${{curcontext%:*}}-$line[1]:
        case $line[1] in
{cases}
        esac
        ;;
    esac
"""


def zsh() -> str:
    functions = [f"{_zsh_name(command)}() {{\n{_zsh_body(command)}}}\n" for command in walk(program())]
    shipped = [_quoted(f"{name}:{text}") for name, text in _shipped().items()]
    return _fill("_mlxctl", "\n".join(functions), _lines(shipped, 8))


def _lines(lines: Iterable[str], indent: int, glue: str = "\n") -> str:
    return glue.join(" " * indent + line for line in lines)


def _zsh_body(command: Command) -> str:
    specs = [_zsh_flag(flag) for flag in command.flags]
    if not command.commands:
        specs += map(_zsh_argument, command.arguments)
        return "    _arguments -S \\\n" + _lines(specs, 8, " \\\n") + "\n"
    specs += ["'1:command:->command'", "'*::argument:->argument'"]
    commands = [_quoted(f"{inner.path[-1]}:{inner.help}") for inner in command.commands]
    cases = [f"{inner.path[-1]}) {_zsh_name(inner)} ;;" for inner in command.commands]
    return _ZSH_GROUP.format(specs=_lines(specs, 8, " \\\n"), commands=_lines(commands, 12), cases=_lines(cases, 8))


def _zsh_name(command: Command) -> str:
    return "-".join(("_mlxctl", *command.path))


def _zsh_flag(flag: Flag) -> str:
    """A spec of _arguments: '(-P --profile)'{-P+,--profile=}'[help]:value:action'."""
    rivals = flag.excludes if flag.repeatable else (*flag.names, *flag.excludes)
    before = ("*" if flag.repeatable else "") + (f"({' '.join(rivals)})" if len(rivals) > 1 else "")
    names = [name + _zsh_joint(name, flag.value) for name in flag.names]
    listed = "{" + ",".join(names) + "}" if len(names) > 1 else names[0]
    text = re.sub(r"([\[\]\\:])", r"\\\1", flag.help)
    return (f"'{before}'" if before else "") + listed + _quoted(f"[{text}]{_zsh_value(flag.value)}")


def _zsh_joint(name: str, value: Value | None) -> str:
    """How a value may be attached."""
    if value is None:
        return ""
    return "=" if name.startswith("--") else "+"


def _zsh_value(value: Value | None) -> str:
    if value is None:
        return ""
    return (":" if value.optional else "") + f":value:{_zsh_action(value)}"


def _zsh_action(value: Value) -> str:
    known = {"nothing": " ", "words": f"({' '.join(value.words)})", "paths": "_files", "folders": "_path_files -/"}
    return known.get(value.kind, f"_mlxctl_{value.kind}")


def _zsh_argument(argument: Argument) -> str:
    """A message in the place of a word would keep a flag from being completed."""
    action = "_mlxctl_nothing" if argument.value.kind == "nothing" else _zsh_action(argument.value)
    return _quoted(("*" if argument.many else ":") + f":{argument.name}:{action}")


# fish: a `complete` for each flag, command and argument


def fish() -> str:
    commands = list(walk(program()))
    known = [inner.name for command in commands for inner in command.commands]
    valued = [f"{c.name} {name}" for c in commands for flag in c.flags if _needs_value(flag) for name in flag.names]
    lines = [f"set -g __mlxctl_commands {_fish_words(known)}", f"set -g __mlxctl_with_value {_fish_words(valued)}"]
    lines += ["", "complete -c mlxctl -e", "complete -c mlxctl -f"]
    lines += [line for command in commands for line in _fish_command(command)]
    shipped = (text for pair in _shipped().items() for text in pair)
    return _fill("mlxctl.fish", "\n".join(lines), _fish_words(shipped))


def _needs_value(flag: Flag) -> bool:
    return flag.value is not None and not flag.value.optional


def _fish_command(command: Command) -> Iterator[str]:
    here = f"__mlxctl_at {_fish_quoted(command.name)}"
    yield f"\n# mlxctl {command.name}".rstrip()
    for inner in command.commands:
        yield _fish_line(f"{here} 0", f"-a {inner.path[-1]}", inner.help)
    for place, argument in enumerate(command.arguments):
        yield from _fish_offer(here if argument.many else f"{here} {place}", argument.value)
    for flag in command.flags:
        yield _fish_line(here, " ".join([*map(_fish_name, flag.names), *_fish_takes(flag)]), flag.help)
        if flag.value and flag.value.optional:
            yield from _fish_offer(f"{here}; and __mlxctl_after {' '.join(flag.names)}", flag.value)


def _fish_offer(where: str, value: Value) -> Iterator[str]:
    """Words without a flag."""
    if value.kind != "nothing":
        yield _fish_line(where, " ".join(_fish_value(value)), "")


def _fish_name(name: str) -> str:
    """-P, --profile, and -qa, which fish calls an old option."""
    if name.startswith("--"):
        return f"-l {name[2:]}"
    return f"-{'s' if len(name) == 2 else 'o'} {name[1:]}"


def _fish_takes(flag: Flag) -> list[str]:
    return [*(["-r"] if _needs_value(flag) else []), *(_fish_value(flag.value) if flag.value else [])]


def _fish_value(value: Value) -> list[str]:
    if value.kind == "paths":
        return ["-F"]
    known = {"nothing": [], "words": ["-a", _fish_quoted(" ".join(value.words))]}
    return ["-f", *known.get(value.kind, ["-a", f"'(__mlxctl_{value.kind})'"])]


def _fish_line(where: str, what: str, text: str) -> str:
    return f'complete -c mlxctl -n "{where}" {what}' + (f" -d {_fish_quoted(text)}" if text else "")


def _fish_words(words: Iterable[str]) -> str:
    return " ".join(map(_fish_quoted, words))


def _fish_quoted(text: str) -> str:
    return "'" + re.sub(r"([\\'])", r"\\\1", text) + "'"


# Writing


def _quoted(text: str) -> str:
    """In single quotes, for bash and zsh."""
    return "'" + text.replace("'", "'\\''") + "'"


def _fill(name: str, tables: str, shipped: str) -> str:
    """A template with what was made for it."""
    text = (TEMPLATES / f"{name}.in").read_text(encoding="utf-8")
    made = {"TABLES": tables, "SHIPPED": shipped, "BUILTIN": " ".join(_builtin()), "KEYS": " ".join(_keys())}
    return re.sub("@([A-Z]+)@", lambda found: made[found[1]], text)


def scripts() -> dict[str, str]:
    """The text of each file of completions/."""
    return {"mlxctl.bash": bash(), "_mlxctl": zsh(), "mlxctl.fish": fish()}
