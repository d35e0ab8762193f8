"""Weight-sharing architecture search with a REINFORCE controller, one network per tower and step.

The method is TuNAS: "Can weight sharing outperform random architecture search? An investigation
with TuNAS", Bender, Liu et al., CVPR 2020. Start with README.md.
"""
