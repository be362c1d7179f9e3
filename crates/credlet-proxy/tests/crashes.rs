//! Inputs that once violated an assertion of a fuzz target: every file below `crashes/`.

use std::path::Path;

use credlet_proxy::server::StatusReport;

#[test]
fn control_report_reads_what_it_writes() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crashes/control_report");
    let mut seen = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let report: StatusReport = std::fs::read_to_string(entry.unwrap().path()).unwrap().parse().unwrap();
        let shown = report.to_string();
        assert_eq!(shown.parse::<StatusReport>().unwrap().to_string(), shown);
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n'));
        seen += 1;
    }
    assert!(seen > 0);
}
