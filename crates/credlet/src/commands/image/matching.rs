use std::io::{BufRead as _, Read as _};

use credlet_image::{ImageName, ImagePattern, MatchTarget};
use serde_json::{Value, json};

use super::super::Outcome;
use crate::error::CliError;
use crate::exit::ExitStatus;
use crate::printer::{OutputArgs, OutputFormat, Printer};

/// Test whether a pattern of matchImages matches an image
///
/// The image name is normalised like in the kubelet. Exits with code 0 if all pairs match, and with code 1 otherwise.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Pattern, as in `matchImages`
    #[arg(required_unless_present = "stdin", requires = "image", conflicts_with = "stdin")]
    pattern: Option<String>,
    /// Image to match, as in a pod
    #[arg(conflicts_with = "stdin")]
    image: Option<String>,
    /// Read pairs from standard input: a pattern, a tab and an image on each line
    #[arg(long)]
    stdin: bool,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  credlet image match '*.dkr.ecr.*.amazonaws.com' 123456789012.dkr.ecr.eu-west-1.amazonaws.com/app
  credlet image match 'registry.io/*' registry.io/foo
  credlet image match --stdin -o json < pairs.tsv";

/// Longest line that is read, in bytes.
const MAX_LINE_LENGTH: u64 = 1 << 20;

pub(crate) fn run(args: Args) -> Outcome {
    let mut printer = Printer::default();
    let mut all = true;
    let mut check = |pattern: &str, image: &str| {
        let report = MatchReport::new(pattern, image);
        all &= report.reasons.is_empty();
        match args.output.format {
            OutputFormat::Text => report.lines().for_each(|line| printer.untrusted_line(&line)),
            OutputFormat::Json if args.stdin => printer.json_line(&report.to_json()),
            format => printer.object(&report.to_json(), format),
        }
    };
    match (&args.pattern, &args.image) {
        (Some(pattern), Some(image)) => check(pattern, image),
        _ => {
            let mut stdin = std::io::stdin().lock();
            let mut line = String::new();
            loop {
                line.clear();
                let read = (&mut stdin).take(MAX_LINE_LENGTH).read_line(&mut line);
                match read.map_err(|error| CliError::usage(format!("failed to read standard input: {error}")))? {
                    0 => break,
                    _ if line.trim().is_empty() => continue,
                    _ => {}
                }
                let (pattern, image) = line.trim_end_matches(['\r', '\n']).split_once('\t').ok_or_else(|| {
                    CliError::usage("invalid line on standard input: must be a pattern, a tab and an image")
                })?;
                check(pattern, image);
            }
        }
    }
    printer.finish()?;
    Ok(if all { ExitStatus::Success } else { ExitStatus::ServerError })
}

struct MatchReport {
    pattern: String,
    image: String,
    normalised: Option<String>,
    reasons: Vec<String>,
}

impl MatchReport {
    fn new(pattern: &str, image: &str) -> Self {
        let name = image.parse::<ImageName>();
        let reasons = match (ImagePattern::parse(pattern), &name) {
            (Ok(pattern), Ok(name)) => {
                pattern.mismatches(&MatchTarget::from(name)).iter().map(ToString::to_string).collect()
            }
            (Err(error), _) => vec![format!("invalid pattern: {error}")],
            (_, Err(error)) => vec![error.to_string()],
        };
        let normalised = name.ok().map(|name| name.as_str().to_owned());
        Self { pattern: pattern.to_owned(), image: image.to_owned(), normalised, reasons }
    }

    fn lines(&self) -> impl Iterator<Item = String> + '_ {
        let image = self.normalised.as_deref().unwrap_or(&self.image);
        let yes = self.reasons.is_empty().then(|| format!("✓ `{}` matches {image}", self.pattern));
        let no =
            self.reasons.iter().map(move |reason| format!("✗ `{}` does not match {image}: {reason}", self.pattern));
        yes.into_iter().chain(no)
    }

    fn to_json(&self) -> Value {
        json!({
            "pattern": self.pattern,
            "image": self.image,
            "completed": self.normalised,
            "match": self.reasons.is_empty(),
            "reasons": self.reasons,
        })
    }
}
