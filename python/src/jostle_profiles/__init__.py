"""Profiles of Jostle in Python: load them into dataclasses and pandas, plot them, and
predict what applications keep beside each other.

>>> import jostle_profiles as jp
>>> profiles = jp.load("profiles")                         # doctest: +SKIP
>>> profiles.to_frame()                                    # doctest: +SKIP
>>> jp.plot_vector(profiles["xz"])                         # doctest: +SKIP

Loading needs nothing but Python. Frames and predictions need pandas, plots matplotlib:
``pip install 'jostle-profiles[pandas,plot]'``.
"""

from ._version import VERSION as __version__
from .errors import JostleError
from .errors import JostleNotFoundError
from .errors import ProfileError
from .errors import ProfileWarning
from .frames import to_frame
from .frames import to_wide
from .loading import Profiles
from .loading import load
from .loading import load_file
from .model import RESOURCES
from .model import Conditions
from .model import CurvePoint
from .model import Estimate
from .model import Loss
from .model import Machine
from .model import Metric
from .model import Profile
from .model import Quantity
from .model import Resource
from .model import Score
from .model import Unavailable
from .model import Use
from .pairs import Member
from .pairs import Pairs
from .pairs import load_pairs
from .plotting import plot_heatmap
from .plotting import plot_vector
from .prediction import find_jostle
from .prediction import predict

__all__ = [
    "RESOURCES",
    "Conditions",
    "CurvePoint",
    "Estimate",
    "JostleError",
    "JostleNotFoundError",
    "Loss",
    "Machine",
    "Member",
    "Metric",
    "Pairs",
    "Profile",
    "ProfileError",
    "ProfileWarning",
    "Profiles",
    "Quantity",
    "Resource",
    "Score",
    "Unavailable",
    "Use",
    "__version__",
    "find_jostle",
    "load",
    "load_file",
    "load_pairs",
    "plot_heatmap",
    "plot_vector",
    "predict",
    "to_frame",
    "to_wide",
]
