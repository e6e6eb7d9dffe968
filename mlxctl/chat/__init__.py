"""`mlxctl chat`: a conversation, its commands, and how it is shown and kept."""
