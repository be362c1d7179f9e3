//! Renders a snapshot as lines of text: counters, time line and checks.

use std::time::Duration;

use super::styled_line::{SpanStyle, StyledLine};
use crate::commands::demo::scenario::grouped;
use crate::commands::demo::state::{CheckState, CredentialHistory, DemoSnapshot, SLICE, slice};

/// Width of the labels at the left.
const LABEL: usize = 13;

/// Time between two marks of the axis.
const MARK: Duration = Duration::from_secs(2);

/// All lines, each of at most `width` columns.
pub(super) fn frame(snapshot: &DemoSnapshot, width: usize) -> Vec<StyledLine> {
    let mut lines = vec![title(snapshot, width), StyledLine::default()];
    lines.extend(counters(snapshot));
    lines.push(StyledLine::default());
    lines.extend(time_line(snapshot, width));
    lines.push(StyledLine::default());
    lines.extend(summary(snapshot));
    lines.iter_mut().for_each(|line| line.truncate(width));
    lines
}

/// A line for each check, and the result.
pub(super) fn summary(snapshot: &DemoSnapshot) -> Vec<StyledLine> {
    let mut lines: Vec<_> = snapshot.checks.iter().enumerate().map(|(number, _)| check(snapshot, number)).collect();
    lines.push(StyledLine::default());
    lines.push(match snapshot.verdict() {
        None => StyledLine::default().add(SpanStyle::Dim, " …"),
        Some(true) => StyledLine::default().add(SpanStyle::Good, " All checks passed."),
        Some(false) => StyledLine::default().add(SpanStyle::Bad, " Some checks failed."),
    });
    lines
}

/// Returns the line of one check.
pub(super) fn check(snapshot: &DemoSnapshot, number: usize) -> StyledLine {
    let Some(check) = snapshot.checks.get(number) else { return StyledLine::default() };
    let (style, sign) = match check.state {
        CheckState::Pending => (SpanStyle::Dim, "·"),
        CheckState::Passed => (SpanStyle::Good, "✓"),
        CheckState::Failed => (SpanStyle::Bad, "✗"),
    };
    let what = if check.state == CheckState::Pending { SpanStyle::Dim } else { SpanStyle::Plain };
    let line = StyledLine::default().add(style, format!(" {sign} ")).add(what, format!("{:<37}", check.what));
    line.add(what, credlet_api::escape_line(&check.details))
}

fn title(snapshot: &DemoSnapshot, width: usize) -> StyledLine {
    let line = StyledLine::default()
        .add(SpanStyle::Bold, " credlet demo")
        .add(SpanStyle::Dim, "  one plugin, one API server, ten callers and a watch");
    let time = format!("{:.1} s ", snapshot.now.as_secs_f64());
    let gap = width.saturating_sub(line.width() + time.chars().count());
    line.add(SpanStyle::Plain, " ".repeat(gap)).add(SpanStyle::Dim, time)
}

fn counters(snapshot: &DemoSnapshot) -> [StyledLine; 3] {
    let number = |line: StyledLine, number: u64, what: &str| {
        line.add(SpanStyle::Bold, grouped(number)).add(SpanStyle::Dim, format!(" {what}   "))
    };
    let failed = if snapshot.failed == 0 { SpanStyle::Good } else { SpanStyle::Bad };
    let requests = number(labelled("requests"), snapshot.succeeded, "succeeded")
        .add(failed, grouped(snapshot.failed))
        .add(SpanStyle::Dim, " failed   ");
    let requests = number(requests, snapshot.revoked.len() as u64, "rejected and retried");
    let runs = number(labelled("plugin runs"), snapshot.tokens.runs as u64, "for tokens");
    let runs = number(runs, snapshot.certificates.runs as u64, "for certificates");
    let time = |line: StyledLine, share: f64, what: &str| {
        let within = snapshot.latency.percentile(share).map_or_else(|| "–".to_owned(), milliseconds);
        line.add(SpanStyle::Bold, within).add(SpanStyle::Dim, format!(" {what}   "))
    };
    [requests, runs, time(time(labelled("latency"), 0.5, "median"), 0.99, "99th percentile")]
}

fn milliseconds(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1e3;
    if milliseconds < 10.0 { format!("{milliseconds:.1} ms") } else { format!("{milliseconds:.0} ms") }
}

fn labelled(label: &str) -> StyledLine {
    StyledLine::default().add(SpanStyle::Dim, format!(" {label:<LABEL$}"))
}

/// The time line with one column per slice. If the width does not suffice, only the latest slices are shown.
fn time_line(snapshot: &DemoSnapshot, width: usize) -> [StyledLine; 5] {
    let columns = width.saturating_sub(LABEL + 2);
    let now = slice(snapshot.now);
    let first = (now + 1).saturating_sub(columns);
    let shown = first..=now;
    [
        credentials(labelled("token"), &snapshot.tokens, SpanStyle::TOKENS, &snapshot.revoked, shown.clone()),
        credentials(labelled("certificate"), &snapshot.certificates, SpanStyle::CERTIFICATES, &[], shown.clone()),
        watch(snapshot, shown.clone()),
        slowest(snapshot, shown),
        axis(first, columns),
    ]
}

type Slices = std::ops::RangeInclusive<usize>;

/// The bar of the credentials, each with its number. A cross marks a rejected credential.
fn credentials(
    mut line: StyledLine,
    history: &CredentialHistory,
    styles: [SpanStyle; 2],
    refused: &[Duration],
    shown: Slices,
) -> StyledLine {
    // If the next credential is in use within the same slice, the cross is one column before it.
    let starts_in = |column: usize| history.uses.iter().any(|credential_use| slice(credential_use.from) == column);
    let before = |column: usize| if starts_in(column) { column.saturating_sub(1) } else { column };
    let crosses: Vec<_> = refused.iter().map(|at| before(slice(*at))).collect();
    for column in shown {
        let begun = history.uses.iter().take_while(|credential_use| slice(credential_use.from) <= column).count();
        let style = styles[begun % 2];
        line = if crosses.contains(&column) {
            line.add(SpanStyle::Bad, "✗")
        } else if starts_in(column) {
            let digit = u32::try_from(begun % 36).ok().and_then(|number| char::from_digit(number, 36));
            line.add(style, digit.unwrap_or('#').to_string())
        } else {
            line.add(style, if begun > 0 { "━" } else { " " })
        };
    }
    line
}

/// The bar of the watch, with a dot for each event.
fn watch(snapshot: &DemoSnapshot, shown: Slices) -> StyledLine {
    let mut line = labelled("watch");
    let Some(watch) = &snapshot.watch else { return line };
    for column in shown {
        let is_open = slice(watch.from) <= column && watch.until.is_none_or(|until| column <= slice(until));
        let has_event = watch.events.iter().any(|event| slice(*event) == column);
        line = line.add(
            SpanStyle::Watch,
            if has_event {
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

/// The duration of the slowest request per slice, one step for each doubling from half a millisecond.
fn slowest(snapshot: &DemoSnapshot, shown: Slices) -> StyledLine {
    const STEPS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
    let mut line = labelled("slowest");
    for column in shown {
        let step = snapshot.slowest.get(column).filter(|slowest| !slowest.is_zero()).map(|slowest| {
            let halves = slowest.as_micros() / 500;
            let doublings = u128::BITS - halves.leading_zeros();
            STEPS[usize::try_from(doublings).unwrap_or_default().min(STEPS.len() - 1)]
        });
        line = line.add(SpanStyle::Latency, step.unwrap_or(" "));
    }
    line
}

fn axis(first: usize, columns: usize) -> StyledLine {
    let every = slice(MARK);
    let mut text = String::new();
    for column in first..first + columns {
        let written = text.chars().count() + first;
        if column % every == 0 && column >= written {
            text.push_str(&" ".repeat(column - written));
            text.push_str(&format!("{} s", (SLICE * u32::try_from(column).unwrap_or_default()).as_secs()));
        }
    }
    labelled("").add(SpanStyle::Dim, text)
}
