"""A user's package for the tests of shipping: it exists where values are dumped, and not where they are loaded."""
