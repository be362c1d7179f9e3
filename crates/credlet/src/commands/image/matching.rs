use std::io::{BufRead as _, Read as _};

use credlet_image::{ImageName, Pattern, Target};
use serde_json::{Value, json};

use super::super::Outcome;
use crate::error::CliError;
use crate::exit::Exit;
use crate::printer::{Format, FormatArg, Printer};

/// Say whether a pattern of matchImages matches an image, and why not
///
/// The image is completed as the kubelet completes it. Ends with code 0 if all match and with code 1 if one does not.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The pattern
    #[arg(required_unless_present = "stdin", requires = "image", conflicts_with = "stdin")]
    pattern: Option<String>,
    /// The image
    #[arg(conflicts_with = "stdin")]
    image: Option<String>,
    /// Read pairs from standard input: a pattern, a tab and an image on each line
    #[arg(long)]
    stdin: bool,
    #[command(flatten)]
    output: FormatArg,
}

const EXAMPLES: &str = "\
Examples:
  credlet image match '*.dkr.ecr.*.amazonaws.com' 123456789012.dkr.ecr.eu-west-1.amazonaws.com/app
  credlet image match 'registry.io/*' registry.io/foo
  credlet image match --stdin -o json < pairs.tsv";

/// More than anybody writes on a line.
const LONGEST: u64 = 1 << 20;

pub(crate) fn run(args: Args) -> Outcome {
    let mut printer = Printer::default();
    let mut all = true;
    let mut judge = |pattern: &str, image: &str| {
        let judged = Judged::new(pattern, image);
        all &= judged.reasons.is_empty();
        match args.output.format {
            Format::Text => judged.reasons_or_yes().for_each(|line| printer.foreign(&line)),
            Format::Json if args.stdin => printer.line(judged.object().to_string()),
            format => printer.object(&judged.object(), format),
        }
    };
    match (&args.pattern, &args.image) {
        (Some(pattern), Some(image)) => judge(pattern, image),
        _ => {
            let mut stdin = std::io::stdin().lock();
            let mut line = String::new();
            loop {
                line.clear();
                let read = (&mut stdin).take(LONGEST).read_line(&mut line);
                match read.map_err(|error| CliError::usage(format!("standard input cannot be read: {error}")))? {
                    0 => break,
                    _ if line.trim().is_empty() => continue,
                    _ => {}
                }
                let (pattern, image) = line
                    .trim_end_matches(['\r', '\n'])
                    .split_once('\t')
                    .ok_or_else(|| CliError::usage("a line of standard input is no pattern, tab and image"))?;
                judge(pattern, image);
            }
        }
    }
    printer.done()?;
    Ok(if all { Exit::Ok } else { Exit::Refused })
}

struct Judged {
    pattern: String,
    image: String,
    completed: Option<String>,
    reasons: Vec<String>,
}

impl Judged {
    fn new(pattern: &str, image: &str) -> Self {
        let name = image.parse::<ImageName>();
        let reasons = match (Pattern::parse(pattern), &name) {
            (Ok(pattern), Ok(name)) => {
                pattern.mismatches(&Target::from(name)).iter().map(ToString::to_string).collect()
            }
            (Err(error), _) => vec![format!("the pattern is no image: {error}")],
            (_, Err(error)) => vec![error.to_string()],
        };
        let completed = name.ok().map(|name| name.as_str().to_owned());
        Self { pattern: pattern.to_owned(), image: image.to_owned(), completed, reasons }
    }

    fn reasons_or_yes(&self) -> impl Iterator<Item = String> + '_ {
        let image = self.completed.as_deref().unwrap_or(&self.image);
        let yes = self.reasons.is_empty().then(|| format!("✓ `{}` matches {image}", self.pattern));
        let no =
            self.reasons.iter().map(move |reason| format!("✗ `{}` does not match {image}: {reason}", self.pattern));
        yes.into_iter().chain(no)
    }

    fn object(&self) -> Value {
        json!({
            "pattern": self.pattern,
            "image": self.image,
            "completed": self.completed,
            "match": self.reasons.is_empty(),
            "reasons": self.reasons,
        })
    }
}
