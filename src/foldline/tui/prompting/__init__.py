"""The prompt: its editor, pastes and attachments, completion, and earlier prompts."""
