"""What a terminal may be handed."""

# What a model writes shall not steer a terminal: control characters are shown as pictures there.
_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t\r"}
_PICTURES |= {127: 0x2421} | dict.fromkeys(range(0x80, 0xA0), 0xFFFD)


def harmless(text: str) -> str:
    """A text whose control characters are shown rather than obeyed."""
    return text.translate(_PICTURES)
