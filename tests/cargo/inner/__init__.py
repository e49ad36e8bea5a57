LEVEL = "inner"
