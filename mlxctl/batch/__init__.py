"""Many prompts from a file, answered together."""
