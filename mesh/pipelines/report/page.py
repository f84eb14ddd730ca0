"""A report as one page of HTML: without scripts or external resources, in light and dark. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from importlib import resources
from typing import Final

from mesh.pipelines.report import plots
from mesh.pipelines.report.delays import quantiles
from mesh.pipelines.report.figures import Figures, MemberFigures, TallyOfTime
from mesh.pipelines.report.scales import Logarithmic
from mesh.pipelines.report.wording import duration, moment, number, percent

MOST: Final = 30
"""The most members and topics that the page shows; the tables have all of them."""
WHISKER: Final = 220
NAMES: Final = {
    "waited": "produce → delivery",
    "held": "delivery → acknowledgement",
    "whole": "produce → acknowledgement",
}
_THREE: Final = (500, 990, 999)


def page(figures: Figures) -> str:
    """Returns the whole report as HTML."""
    title = f"Group {figures.group}: how it was delivered"
    style = resources.files("mesh.pipelines.report").joinpath("report.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        'img-src data:">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        + "\n".join(_body(figures))
        + "\n</body>\n</html>\n"
    )


def _body(figures: Figures) -> Iterator[str]:
    wide = duration(figures.end - figures.begin)
    yield (
        f"<header><h1>{escape(figures.group)}</h1><div class=quiet>virtual cluster {escape(figures.virtual_cluster)} · "
        f"{moment(figures.begin)} to {moment(figures.end)} UTC ({wide}), in windows of {duration(figures.window)}"
        "</div></header>"
    )
    if not figures.cube:
        yield '<p class="notice">The journal says nothing of this group in this time.</p>'
        return
    yield f"<p class=lead>{_lead(figures)}</p>"
    if figures.holes.any:
        yield (
            f'<p class="notice">The journal has holes: {figures.holes.pages:,} pages lost, {figures.holes.dropped:,} '
            "events dropped. The figures below do not include them.</p>"
        )
    yield from _tiles(figures)
    yield from _plots(figures)
    yield from _members(figures)
    yield from _topics(figures)
    yield (
        "<footer>Times are weighted by records: p99 is the time that 99 of 100 records did not exceed. Produce is the "
        "highest timestamp of the first delivered batch, by the clock of the producer or broker that set it; for "
        "leases it is not known, so delays from produce on leave them out. Slow: the member holds its median "
        "record at least four times as long as the median member. Stuck: for "
        f"{duration(figures.stuck)} it has held records and acknowledged none. Jain's index is 1 if all members "
        "acknowledged the same number, 1/n if one of n acknowledged all; a slower member gets less, so an index below "
        "1 is no fault. The figures are in the Parquet files beside this page.</footer>"
    )


def _lead(figures: Figures) -> str:
    held = quantiles(figures.total.held, _THREE)
    count = len(figures.members)
    sentences = [
        f"{figures.total.counts['acknowledged']:,} records of {_many(len(figures.topics), 'topic')} were acknowledged "
        f"by {_many(count, 'member')}"
    ]
    if held[0] is not None:
        sentences[0] += (
            f", half of them within {duration(held[0])} of their delivery and 99.9 % within {duration(held[2])}"
        )
    for standing in ("stuck", "slow"):
        names = [f"<b>{escape(each.shown)}</b>" for each in figures.members if each.standing == standing]
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            sentences.append(f"{', '.join(names[:3])}{more} {'is' if len(names) == 1 else 'are'} {standing}")
    if len(sentences) == 1:
        sentences.append("Nobody is slow or stuck")
    return ". ".join(sentences) + "."


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _tiles(figures: Figures) -> Iterator[str]:
    total = figures.total
    middle, far, farthest = quantiles(total.held, _THREE)
    waited = quantiles(total.waited, _THREE)
    dead, again = total.counts["dead_lettered"], total.rate("redelivered")
    yield "<div class=tiles>"
    yield _tile(number(total.given), "records delivered")
    yield _tile(f"{duration(waited[0])}", f"produce → delivery, p50<br>p99 {duration(waited[1])}")
    yield _tile(
        duration(middle), f"delivery → acknowledgement, p50<br>p99 {duration(far)} · p99.9 {duration(farthest)}"
    )
    even = figures.fairness
    yield _tile("–" if even is None else f"{even:.3f}", "Jain's index of fairness")
    yield _tile(
        percent(again), f"delivered again<br>{total.counts['redelivered']:,} records", "warn" if again > 0.01 else ""
    )
    yield _tile(number(dead), f"dead letters<br>{percent(total.rate('dead_lettered'))} of all", "bad" if dead else "")
    if lost := total.counts["given_up"]:
        yield _tile(number(lost), "settled without<br>a dead letter", "bad")
    yield _tile(number(total.counts["open"]), f"still held<br>{duration(total.oldest or None)} at the longest")
    yield "</div>"


def _tile(value: str, words: str, style: str = "") -> str:
    return f'<div class="tile {style}"><b>{value}</b><span>{words}</span></div>'


def _plots(figures: Figures) -> Iterator[str]:
    scale = plots.scale_of_delays(figures, ("waited", "held"))
    yield "<div class=grid2>"
    for name in ("waited", "held"):
        drawn = plots.delays_over_time(figures, name, f"{NAMES[name]} over time", scale)
        yield _card(_capital(NAMES[name]), "p50 bold, shaded up to p99, p99.9 dotted", drawn)
    yield _card(
        "How late, to the last nine", "all records by their delay", _legend(NAMES.items()), plots.nines(figures)
    )
    legend = _legend([("held", "acknowledged"), ("waited", "delivered")])
    yield _card("Records a second", "per window", legend, plots.throughput(figures))
    styles = plots.colours(figures)
    own = [(styles[each.name], each.shown) for each in figures.members if styles[each.name] != "others"]
    others = [each.shown for each in figures.members[len(own) :]]
    own += [("others", others[0] if len(others) == 1 else f"{len(others)} others")] if others else []
    even = "acknowledged records by member; beneath it Jain's index"
    yield _card("Who did it", even, _legend(own), plots.shares(figures))
    wrong = "as a share of the deliveries in that window"
    if any(figures.total.counts[name] for name in plots.PROBLEMS):
        drawn = plots.problems(figures)
        yield _card("What went wrong", wrong, _legend(plots.PROBLEMS.items()), drawn)
    else:
        yield _card("What went wrong", wrong, "<p>Nothing: no record was delivered again, taken away or given up.</p>")
    yield "</div>"


def _card(title: str, words: str, *inside: str) -> str:
    return f"<section class=card><h2>{title}</h2><p>{words}</p>{''.join(inside)}</section>"


def _legend(entries: Iterable[tuple[str, str]]) -> str:
    items = "".join(f'<li><i class="{style}"></i>{escape(words)}</li>' for style, words in entries)
    return f"<ul class=legend>{items}</ul>"


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _members(figures: Figures) -> Iterator[str]:
    members, styles = figures.members, plots.colours(figures)
    # Slow and stuck members are always shown, however few records they had.
    shown = sorted(members, key=lambda each: not each.standing)[:MOST]
    shown.sort(key=members.index)
    values = [each for member in shown for each in quantiles(member.tally.held, _THREE) if each is not None]
    scale = Logarithmic.of(values, 16, WHISKER - 16)
    words = (
        "how long each holds a record until it acknowledges it: the dot is p50, the bar ends at p99, the line at p99.9"
    )
    yield f"<section class=card><h2>Members</h2><p>{words}</p>"
    yield "<div class=scroll><table><thead><tr><th>member<th class=number>acknowledged<th>share"
    yield f"<th style='width:{WHISKER}px'>{plots.ruler(scale, WHISKER)}"
    yield "<th class=number>p50<th class=number>p99<th class=number>given again<th class=number>taken away"
    yield "<th class=number>dead letters<th class=number>holds now<th class=number>for<tbody>"
    for member in shown:
        yield _member(member, styles[member.name], scale)
    yield "</table></div>"
    if len(shown) < len(members):
        yield f"<p class=quiet>and {len(members) - len(shown):,} more, in <code>members.parquet</code></p>"
    yield "</section>"


def _member(member: MemberFigures, style: str, scale: Logarithmic) -> str:
    tally = member.tally
    held = quantiles(tally.held, _THREE)
    badge = f'<span class="badge {member.standing}">{member.standing}</span>' if member.standing else ""
    badge += '<span class="badge lease">leases</span>' if member.member_info.is_lease else ""
    where = f" <small>{escape(member.member_info.host)}</small>" if member.member_info.host else ""
    name = f'<td class=name title="{escape(member.name)}"><i class="{style}"></i>{escape(member.shown)}{where}{badge}'
    share = f'<td style="white-space:nowrap">{percent(member.share)}'
    share += f'<span class=share><i class="{style}" style="width:{member.share:.1%}"></i></span>'
    counts = "".join(_count(tally.counts[each]) for each in ("redelivered", "expired", "dead_lettered", "open"))
    stuck = " bad" if member.standing == "stuck" else ""
    oldest = f"<td class='number{stuck}'>{duration(tally.oldest) if tally.oldest else ''}"
    return (
        f"<tr>{name}{_count(tally.counts['acknowledged'])}{share}<td>{plots.whisker(held, scale, WHISKER)}"
        f"<td class=number>{duration(held[0])}<td class=number>{duration(held[1])}{counts}{oldest}"
    )


def _count(count: int) -> str:
    return f"<td class=number>{count:,}" if count else "<td class='number quiet'>0"


def _topics(figures: Figures) -> Iterator[str]:
    found = sorted(figures.topics.items(), key=lambda each: -each[1].given)[:MOST]
    yield "<section class='card last'><h2>Topics</h2><p>upstream, by cluster; delays are p50 / p99 / p99.9</p>"
    yield "<div class=scroll><table><thead><tr><th>topic<th class=number>delivered<th class=number>acknowledged"
    yield "".join(f"<th class=number>{words}" for words in NAMES.values())
    yield "<th>p99 over time<th class=number>delivered again<th class=number>dead letters<tbody>"
    for (cluster, topic), tally in found:
        name = f"<td class=name>{escape(topic)} <small>{escape(cluster)}</small>"
        delays = "".join(_three(tally, each) for each in NAMES)
        nothing = TallyOfTime()
        p99 = [
            quantiles(figures.topics_by_window.get((cluster, topic, window), nothing).held, (990,))[0]
            for window in figures.windows
        ]
        drawn = plots.spark(p99).replace("<svg ", '<svg width="120" ', 1)
        rates = "".join(f"<td class=number>{percent(tally.rate(each))}" for each in ("redelivered", "dead_lettered"))
        yield f"<tr>{name}{_count(tally.given)}{_count(tally.counts['acknowledged'])}{delays}<td>{drawn}{rates}"
    yield "</table></div>"
    if len(found) < len(figures.topics):
        yield f"<p class=quiet>and {len(figures.topics) - len(found):,} more, in <code>topics.parquet</code></p>"
    yield "</section>"


def _three(tally: TallyOfTime, name: str) -> str:
    return "<td class=number>" + " / ".join(duration(each) for each in quantiles(getattr(tally, name), _THREE))
