"""The link to the person's instance: discovery, login, dialling, the WebSocket."""
