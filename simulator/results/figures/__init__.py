"""Figures for papers, from sessions: functions that return a matplotlib `Figure`, without pyplot and without torch.

    from simulator.results.analysis.overview import read_overview
    from simulator.results.figures import accuracy, style
    style.save(accuracy.over([read_overview(folder) for folder in folders], x="bytes", by="method"), Path("fig.pdf"))

style: sizes, fonts, colours, files. palette: the colours, which the app has too. grouped: sessions as lines with bands.
The others draw one kind of figure each; kinds names those of several sessions. What takes the models themselves (t-SNE)
is computed in `simulator.results.inspection` and handed in as arrays.
"""
