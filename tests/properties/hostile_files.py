"""Makes files that nobody should have written, out of those that were."""

import json

# Texts of JSON values, each of which broke some parser, or might have.
VALUES = [
    *("NaN", "-Infinity", "1e999", "1e308", "-1", "0", "0.5", "true", "null", "[]", "{}", '""'),
    "9" * 5000,
    "18446744073709551616",
    "9223372036854775807",
    r'"\ud800"',
    r'"\u0000"',
    r'"\u001b[2J"',
    '"\N{PARTY POPPER}"',
    '"../../../escaped"',
    '"/dev/zero"',
    "\"__import__('os').system('touch escaped')\"",
    '"' + "a" * 50_000 + '"',
    "[" * 5_000,
    "[" * 300 + "]" * 300,
    "[" * 50_000 + "]" * 50_000,
    '{"a":' * 300 + "1" + "}" * 300,
    "[" + "0," * 20_000 + "0]",
    '["list", ["list", 1], null]',
    '["dict", [["list", 1], 2]]',
    '["dict", [1, 2], ["a", 2]]',
    '["oneof", ["choices", 3], ["tag", "t"]]',
    '["oneof", ["choices", "abc"], ["tag", ["list"]]]',
    '["tuple", 1, 2]',
    '{"a": 1, "a": [2]}',
    "[1, 2, 3]",
    "[0, 0, 0]",
]


def mutated(text, random):
    """Returns a text with one to three changes, of its characters or of its values, as bytes."""
    for _ in range(random.randint(1, 3)):
        text = random.choice([_of_characters, _of_values, _of_values, _of_values])(text, random)
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def _of_characters(text, random):
    if isinstance(text, bytes):
        return text
    at = random.randrange(len(text) + 1)
    end = min(len(text), at + random.randint(1, 30))
    return random.choice(
        [
            text[:at],
            text[:at] + text[end:],
            text[:end] + text[at:],
            text[:at] + random.choice('[]{}",:-.e0\\\x00\u2028') + text[at:],
            text[:at].encode() + random.choice([b"\xff", b"\xed\xa0\x80"]) + text[at:].encode(),
            text[:at] + random.choice(VALUES)[:2_000] + text[end:],
        ]
    )


def _of_values(text, random):
    """Replaces a value of the JSON by another; text that is no JSON stays as it is."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return text
    places = list(_places(tree))
    if not places:
        return random.choice(VALUES)
    node, key = random.choice(places)
    if random.random() < 0.2:
        del node[key]
        return json.dumps(tree)
    node[key] = mark = "@@here@@"
    return json.dumps(tree).replace(json.dumps(mark), random.choice(VALUES), 1)


def _places(tree):
    """Yields all pairs of a container and an index or key in it."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if not isinstance(node, (dict, list)):
            continue
        keys = list(node) if isinstance(node, dict) else range(len(node))
        for key in keys:
            yield node, key
            pending.append(node[key])
