"""A user's package, for the tests of shipping: it exists where things are dumped, and is absent where they are loaded."""
