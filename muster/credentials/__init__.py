"""Every bearer secret there is, in one table."""
