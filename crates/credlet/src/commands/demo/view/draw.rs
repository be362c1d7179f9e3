//! A scene as lines of text: counters, the time line, and what held so far.

use std::time::Duration;

use super::line::{Line, Style};
use crate::commands::demo::board::{SLICE, Scene, State, Track, slice};
use crate::commands::demo::show::grouped;

/// The words at the left of each line.
const LABEL: usize = 13;

/// Between marks on the time line.
const MARK: Duration = Duration::from_secs(2);

/// Everything, in lines of at most this many columns.
pub(super) fn frame(scene: &Scene, width: usize) -> Vec<Line> {
    let mut lines = vec![title(scene, width), Line::default()];
    lines.extend(counters(scene));
    lines.push(Line::default());
    lines.extend(time_line(scene, width));
    lines.push(Line::default());
    lines.extend(summary(scene));
    lines.iter_mut().for_each(|line| line.cut(width));
    lines
}

/// What held, and the verdict.
pub(super) fn summary(scene: &Scene) -> Vec<Line> {
    let mut lines: Vec<_> = scene.checks.iter().enumerate().map(|(number, _)| check(scene, number)).collect();
    lines.push(Line::default());
    lines.push(match scene.verdict() {
        None => Line::default().add(Style::Dim, " …"),
        Some(true) => Line::default().add(Style::Good, " All of it held."),
        Some(false) => Line::default().add(Style::Bad, " Not all of it held."),
    });
    lines
}

/// One row of the summary.
pub(super) fn check(scene: &Scene, number: usize) -> Line {
    let Some(check) = scene.checks.get(number) else { return Line::default() };
    let (style, sign) = match check.state {
        State::Open => (Style::Dim, "·"),
        State::Held => (Style::Good, "✓"),
        State::Broken => (Style::Bad, "✗"),
    };
    let what = if check.state == State::Open { Style::Dim } else { Style::Plain };
    let line = Line::default().add(style, format!(" {sign} ")).add(what, format!("{:<37}", check.what));
    line.add(what, credlet_api::visible(&check.seen))
}

fn title(scene: &Scene, width: usize) -> Line {
    let line = Line::default()
        .add(Style::Bold, " credlet demo")
        .add(Style::Dim, "  one plugin, one API server, ten callers and a watch");
    let time = format!("{:.1} s ", scene.now.as_secs_f64());
    let gap = width.saturating_sub(line.width() + time.chars().count());
    line.add(Style::Plain, " ".repeat(gap)).add(Style::Dim, time)
}

fn counters(scene: &Scene) -> [Line; 3] {
    let number = |line: Line, number: u64, what: &str| {
        line.add(Style::Bold, grouped(number)).add(Style::Dim, format!(" {what}   "))
    };
    let failed = if scene.failed == 0 { Style::Good } else { Style::Bad };
    let requests = number(labelled("requests"), scene.answered, "answered")
        .add(failed, grouped(scene.failed))
        .add(Style::Dim, " failed   ");
    let requests = number(requests, scene.revoked.len() as u64, "refused and sent again");
    let runs = number(labelled("plugin runs"), scene.tokens.runs as u64, "for tokens");
    let runs = number(runs, scene.certificates.runs as u64, "for certificates");
    let time = |line: Line, share: f64, what: &str| {
        let within = scene.latency.within(share).map_or_else(|| "–".to_owned(), milliseconds);
        line.add(Style::Bold, within).add(Style::Dim, format!(" {what}   "))
    };
    [requests, runs, time(time(labelled("answers in"), 0.5, "median"), 0.99, "for 99 of 100")]
}

fn milliseconds(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1e3;
    if milliseconds < 10.0 { format!("{milliseconds:.1} ms") } else { format!("{milliseconds:.0} ms") }
}

fn labelled(label: &str) -> Line {
    Line::default().add(Style::Dim, format!(" {label:<LABEL$}"))
}

/// One column for each slice of time; the latest of them if there is no room for all.
fn time_line(scene: &Scene, width: usize) -> [Line; 5] {
    let columns = width.saturating_sub(LABEL + 2);
    let now = slice(scene.now);
    let first = (now + 1).saturating_sub(columns);
    let shown = first..=now;
    [
        credentials(labelled("token"), &scene.tokens, Style::TOKENS, &scene.revoked, shown.clone()),
        credentials(labelled("certificate"), &scene.certificates, Style::CERTIFICATES, &[], shown.clone()),
        watch(scene, shown.clone()),
        slowest(scene, shown),
        axis(first, columns),
    ]
}

type Slices = std::ops::RangeInclusive<usize>;

/// Each credential by its number, for as long as it was the newest that the server knew. A cross: it was refused.
fn credentials(mut line: Line, track: &Track, styles: [Style; 2], refused: &[Duration], shown: Slices) -> Line {
    // Where the next credential is there within the slice, the cross goes before it.
    let starts_in = |column: usize| track.turns.iter().any(|turn| slice(turn.from) == column);
    let before = |column: usize| if starts_in(column) { column.saturating_sub(1) } else { column };
    let crosses: Vec<_> = refused.iter().map(|at| before(slice(*at))).collect();
    for column in shown {
        let begun = track.turns.iter().take_while(|turn| slice(turn.from) <= column).count();
        let style = styles[begun % 2];
        line = if crosses.contains(&column) {
            line.add(Style::Bad, "✗")
        } else if starts_in(column) {
            let digit = u32::try_from(begun % 36).ok().and_then(|number| char::from_digit(number, 36));
            line.add(style, digit.unwrap_or('#').to_string())
        } else {
            line.add(style, if begun > 0 { "━" } else { " " })
        };
    }
    line
}

/// A dot for each moment at which it said something.
fn watch(scene: &Scene, shown: Slices) -> Line {
    let mut line = labelled("watch");
    let Some(watch) = &scene.watch else { return line };
    for column in shown {
        let is_open = slice(watch.from) <= column && watch.until.is_none_or(|until| column <= slice(until));
        let says = watch.events.iter().any(|event| slice(*event) == column);
        line = line.add(
            Style::Watch,
            if says {
                "•"
            } else if is_open {
                "─"
            } else {
                " "
            },
        );
    }
    line
}

/// How long the slowest request took: a step for each doubling, from half a millisecond on.
fn slowest(scene: &Scene, shown: Slices) -> Line {
    const STEPS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
    let mut line = labelled("slowest");
    for column in shown {
        let step = scene.slowest.get(column).filter(|slowest| !slowest.is_zero()).map(|slowest| {
            let halves = slowest.as_micros() / 500;
            let doublings = u128::BITS - halves.leading_zeros();
            STEPS[usize::try_from(doublings).unwrap_or_default().min(STEPS.len() - 1)]
        });
        line = line.add(Style::Latency, step.unwrap_or(" "));
    }
    line
}

fn axis(first: usize, columns: usize) -> Line {
    let every = slice(MARK);
    let mut text = String::new();
    for column in first..first + columns {
        let written = text.chars().count() + first;
        if column % every == 0 && column >= written {
            text.push_str(&" ".repeat(column - written));
            text.push_str(&format!("{} s", (SLICE * u32::try_from(column).unwrap_or_default()).as_secs()));
        }
    }
    labelled("").add(Style::Dim, text)
}
