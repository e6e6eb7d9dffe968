"""JSON schemas for answers that are held to them, one or more for each thing that a schema can say."""

from typing import Any

TREE: dict[str, Any] = {
    "type": "object", "properties": {"v": {"type": "integer", "minimum": 0, "maximum": 9},
                                     "next": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}},
    "required": ["v", "next"], "additionalProperties": False,
}  # fmt: skip
SHORT = {"type": "string", "maxLength": 12}


def fields(**properties: Any) -> dict[str, Any]:
    """An object with just these."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


SCHEMAS: dict[str, Any] = {
    # types
    "null": {"type": "null"},
    "boolean": {"type": "boolean"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "string": {"type": "string", "maxLength": 20},
    "empty array": {"type": "array", "maxItems": 0},
    "empty object": {"type": "object", "additionalProperties": False},
    "types": {"type": ["integer", "boolean", "null"]},
    "draft 7": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "integer", "minimum": 3, "maximum": 5},
    # numbers
    "from to": {"type": "integer", "minimum": -3, "maximum": 12},
    "above below": {"type": "integer", "exclusiveMinimum": 10, "exclusiveMaximum": 20},
    "from alone": {"type": "integer", "minimum": 1000},
    "real from to": {"type": "number", "minimum": 0, "maximum": 1},
    "real above below": {"type": "number", "exclusiveMinimum": -1, "exclusiveMaximum": 1},
    "negative": {"type": "integer", "maximum": -1},
    "multiple": {"type": "integer", "multipleOf": 5, "minimum": 0, "maximum": 100},
    # strings
    "length": {"type": "string", "minLength": 3, "maxLength": 5},
    "one letter": {"type": "string", "minLength": 1, "maxLength": 1},
    "pattern": {"type": "string", "pattern": "^[a-f]{4}-[0-9]{2}$"},
    "pattern with choices": {"type": "string", "pattern": "^(red|green|blue)(ish)?$"},
    "pattern of letters": {"type": "string", "pattern": "^[A-Z][a-z]{1,6}$"},
    "date": {"type": "string", "format": "date"},
    "time": {"type": "string", "format": "time"},
    "date-time": {"type": "string", "format": "date-time"},
    "uuid": {"type": "string", "format": "uuid"},
    "ipv4": {"type": "string", "format": "ipv4"},
    # enums and constants
    "enum": {"enum": ["yes", "no", "perhaps"]},
    "enum of kinds": {"enum": [1, "one", True, None, [1, 2], {"a": 1}]},
    "const": {"const": "exactly this"},
    "const number": {"const": 42},
    "const object": {"const": {"a": [1, {"b": None}]}},
    "const in a field": fields(kind={"const": "point"}, x={"type": "integer", "minimum": 0, "maximum": 9}),
    # objects
    "fields": fields(name=SHORT, age={"type": "integer", "minimum": 0, "maximum": 150}),
    "a field that may lack": {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "boolean"}},
                              "required": ["a"], "additionalProperties": False},
    "no field is needed": {"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}},
                           "additionalProperties": False},
    "nested": fields(outer=fields(inner=fields(deep={"type": "boolean"}))),
    "others of a type": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0, "maximum": 9},
                         "properties": {"first": {"type": "boolean"}}, "required": ["first"]},
    "names with spaces": fields(**{"first name": SHORT, "a.b": {"type": "null"}, 'q"uote': {"type": "boolean"}}),
    "many fields": fields(**{f"f{number}": {"type": "boolean"} for number in range(12)}),
    "one to two properties": {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"],
                              "additionalProperties": False, "minProperties": 1, "maxProperties": 2},
    # arrays
    "array": {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4},
    "array of strings": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1, "maxItems": 5},
    "array of objects": {"type": "array", "items": fields(id={"type": "integer", "minimum": 0, "maximum": 99}),
                         "minItems": 1, "maxItems": 3},
    "array of arrays": {"type": "array", "minItems": 2, "maxItems": 2, "items": {
        "type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "integer", "minimum": 0, "maximum": 1}}},
    "tuple": {"type": "array", "prefixItems": [{"type": "integer", "minimum": 0, "maximum": 9}, {"type": "boolean"}],
              "items": False, "minItems": 2},
    "one item": {"type": "array", "items": {"const": "x"}, "minItems": 1, "maxItems": 1},
    # unions
    "any of": {"anyOf": [{"type": "boolean"}, {"type": "integer", "minimum": 0, "maximum": 9}]},
    "any of objects": {"anyOf": [fields(kind={"const": "a"}, n={"type": "boolean"}), fields(kind={"const": "b"})]},
    "one of by a constant": {"oneOf": [fields(t={"const": 1}), fields(t={"const": 2})]},
    "or null": {"anyOf": [{"type": "null"}, SHORT]},
    "all of": {"allOf": [{"type": "integer"}, {"minimum": 2}, {"maximum": 7}]},
    # references
    "ref": {"$defs": {"bit": {"enum": [0, 1]}}, **fields(a={"$ref": "#/$defs/bit"}, b={"$ref": "#/$defs/bit"})},
    "ref in an array": {"$defs": {"p": fields(x={"type": "boolean"})}, "type": "array", "minItems": 1, "maxItems": 2,
                        "items": {"$ref": "#/$defs/p"}},
    "recursion": TREE,
    "recursion by a name": {"$defs": {"list": {"anyOf": [{"type": "null"}, fields(next={"$ref": "#/$defs/list"})]}},
                            "$ref": "#/$defs/list"},
    # unicode
    "unicode constant": {"const": "grüße 🙂 世界"},
    "unicode names": fields(größe={"type": "integer", "minimum": 0, "maximum": 9}, 名前={"enum": ["東京", "大阪"]}),
    "unicode pattern": {"type": "string", "pattern": "^[а-я]{3}$"},
    "escapes": {"const": 'a "quoted" back\\slash\nand a tab\t'},
    "description": {"title": "T", "description": "said to nobody", "type": "boolean", "default": True},
    "anything short": fields(a={"type": ["string", "null"], "maxLength": 4}, b={"type": "number"}),
}  # fmt: skip
