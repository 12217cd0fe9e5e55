"""The one package that the wheel installs. The packages of the repository (`cli`, `services`, …) are folders in it.

Importing it puts their folder first on the path: they import each other by the names that they have in the repository,
and packages of those names that others installed beside this one stay out of the way. Here, in the repository, that is
the folder above.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_FOLDER = _HERE if os.path.isdir(os.path.join(_HERE, "cli")) else os.path.dirname(_HERE)

if sys.path[:1] != [_FOLDER]:
    sys.path.insert(0, _FOLDER)
