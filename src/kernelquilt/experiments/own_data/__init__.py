"""Users' own files: reading, describing, comparing."""
