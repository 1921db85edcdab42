"""The service managers that can run lembasd: systemd's of the user, and launchd."""
