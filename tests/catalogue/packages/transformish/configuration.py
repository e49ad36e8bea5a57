"""Configuration objects with aliases."""


class Config:
    """Aliases, and a registry of its subclasses."""

    attribute_map = {}
    model_type = ""
    registry = {}

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        Config.registry[cls.model_type] = cls

    def __setattr__(self, name, value):
        super().__setattr__(type(self).attribute_map.get(name, name), value)

    def __getattribute__(self, name):
        aliases = super().__getattribute__("attribute_map")
        return super().__getattribute__(aliases.get(name, name))

    def __init__(self, **values):
        self.return_dict = values.pop("return_dict", True)
        for name, value in values.items():
            setattr(self, name, value)
