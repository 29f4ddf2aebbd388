# %% [markdown]
# # A first look at profiles
#
# Run it in an editor that knows cells (VS Code, Spyder, Jupyter with jupytext), or as
# `python first_look.py [DIRECTORY OF PROFILES]`. It needs `jostle-profiles[pandas,plot]`.

# %% Load every profile of a directory
import sys
from pathlib import Path

import jostle_profiles as jp

HERE = Path(__file__).parent if "__file__" in globals() else Path.cwd()
given = [Path(word) for word in sys.argv[1:] if Path(word).is_dir()]
profiles = jp.load(given[0] if given else HERE / "../../profiles")
print(len(profiles), "profiles:", ", ".join(profiles.names[:8]), "…")

# %% One row per application, resource and direction
table = profiles.to_frame()
print(table[["name", "resource", "direction", "score", "loss_percent", "verdict"]].head(8))

# %% What is not known is NaN, and the column beside it says why
unknown = table[table.score.isna()]
print(unknown[["name", "resource", "reason"]].head(4).to_string(max_colwidth=60))

# %% Which resources cost the applications most, where a loss was shown?
shown = table[(table.direction == "tolerated") & (table.verdict == "sensitive")]
worst = shown.groupby("resource").loss_percent.agg(["count", "median", "max"])
print(worst.sort_values("count", ascending=False).round(1))

# %% Applications by resources
losses = profiles.to_wide("loss_percent")
verdicts = profiles.to_wide("verdict")
print(losses.where(verdicts == "sensitive").dropna(how="all").round(1).iloc[:6, [0, 6, 14]])

# %% One application as a picture
vector = jp.plot_vector(profiles[0])

# %% All of them
heatmap = jp.plot_heatmap(profiles)

# %% What the first two keep beside each other, if the program jostle is installed
try:
    together = jp.predict(profiles[:2], shares_cpus=True)
    print(together[["name", "performance", "performance_low", "performance_high", "most_costly"]])
except jp.JostleNotFoundError as error:
    print(error)
