"""What wraps the channels of a collection, one file each: who ignores the device, who denies, what a device does.

Names and sentences of the further categories. How likely these are says the prior: ``priors/compliance.py`` of one
distribution, ``priors/extended.py`` under a prior over all cells.
"""

import importlib
import pkgutil

from ldpbayes.collections.wrappers.base import AbstractWrapper

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

#: Wrappers by what their protocols say in ``AbstractProtocol.wrapper``.
WRAPPERS = {cls.kind: cls() for cls in AbstractWrapper.__subclasses__()}
