//! Judges the promises by finished runs.

use std::{collections::BTreeMap, path::Path};

use anyhow::Context as _;
use flint_lab::Report;

use super::{
    table::show,
    verdicts::{host_of, is_despite_noise, is_quick, rows},
    without_rows,
};
use crate::{bench::read, failure::Failure};

/// Judges the promises by the finished runs in `folder`.
pub(crate) fn of_kept(folder: &Path, json: bool) -> anyhow::Result<()> {
    let reports = reports(folder)?;
    let mut kept: Vec<_> = reports.iter().flat_map(rows).collect();
    let without =
        without_rows(&kept, |experiment| Some(format!("not measured: no run of {experiment} is kept here")));
    kept.extend(without);
    show(kept, &origins(&reports), json)
}

/// Which builds were measured on which host, and caveats for the reader.
fn origins(reports: &[Report]) -> Vec<String> {
    let by = |origin: fn(&Report) -> String| {
        let mut found: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for report in reports {
            found.entry(origin(report)).or_default().push(&report.experiment);
        }
        found
    };
    let said = |name: &str, found: &BTreeMap<String, Vec<&str>>| match found.len() {
        1 => found.keys().map(|origin| format!("{name} {origin}")).collect::<String>(),
        _ => {
            let each: Vec<_> =
                found.iter().map(|(origin, of)| format!("{origin} ({})", of.join(", "))).collect();
            format!("{name}s differ, so this is no one build's and host's: {}", each.join("; "))
        }
    };
    let mut lines = vec![said("commit", &by(|report| report.commit.clone())), said("host", &by(host_of))];
    let mut caution = |caveat: &str, is: fn(&Report) -> bool| {
        let of: Vec<_> =
            reports.iter().filter(|report| is(report)).map(|report| &*report.experiment).collect();
        if !of.is_empty() {
            lines.push(format!("{caveat}: {}", of.join(", ")));
        }
    };
    caution("quick runs, whose figures are not to be quoted", is_quick);
    caution("runs on a noisy host, judged all the same (--despite-noise)", is_despite_noise);
    lines
}

/// The reports of the runs in `folder`, or of the single run that it contains, by experiment.
fn reports(folder: &Path) -> anyhow::Result<Vec<Report>> {
    let within = std::fs::read_dir(folder)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", folder.display())))?;
    let mut paths: Vec<_> = within.flatten().map(|entry| entry.path().join("report.json")).collect();
    paths.push(folder.join("report.json"));
    let mut reports = Vec::new();
    for path in paths.iter().filter(|path| path.is_file()) {
        let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        reports.push(read(path, &bytes)?);
    }
    if reports.is_empty() {
        let none = format!("there is no report in {} or in its folders", folder.display());
        return Err(Failure::usage(none).into());
    }
    reports.sort_by(|a, b| (&a.experiment, a.ended).cmp(&(&b.experiment, b.ended)));
    Ok(reports)
}

#[cfg(test)]
mod tests {
    use flint_lab::{Noise, Target};

    use super::*;
    use crate::failure::Exit;

    #[test]
    fn what_the_runs_were_made_of_is_said() {
        let report = |experiment: &str, commit: &str, quick| Report {
            experiment: experiment.into(),
            commit: commit.into(),
            settings: serde_json::json!({ "quick": quick }),
            targets: vec![Target::at_most("t", Some(1.0), 2.0).of("S1")],
            ..Report::default()
        };
        let same = origins(&[report("a", "1f", false), report("b", "1f", false)]);
        assert_eq!((same.len(), same[0].as_str()), (2, "commit 1f"));
        let reports = [report("a", "1f", false), report("b", "2e", true)];
        let differing = origins(&reports);
        assert_eq!(differing[0], "commits differ, so this is no one build's and host's: 1f (a); 2e (b)");
        assert_eq!(differing[2], "quick runs, whose figures are not to be quoted: b");
        let row = rows(&reports[1]).remove(0);
        assert_eq!((row.commit.as_deref(), row.quick), (Some("2e"), true));
        let [mut quiet, mut noisy] = reports;
        noisy.arms.push(flint_lab::ArmReport::default());
        quiet.judge(Noise { spread: 1.0, looks: 1, ..Noise::default() }, true);
        noisy.judge(Noise { spread: 2.0, looks: 1, ..Noise::default() }, true);
        assert_eq!(
            origins(&[quiet, noisy.clone()])[3],
            "runs on a noisy host, judged all the same (--despite-noise): b"
        );
        assert!(rows(&noisy).remove(0).despite_noise);
    }

    #[test]
    fn reports_are_found_in_the_folders_of_a_folder() {
        let scratch = tempfile::tempdir().unwrap();
        let none = reports(scratch.path()).unwrap_err().downcast::<Failure>().unwrap();
        assert_eq!(none.exit, Exit::Usage, "{none}");
        let write = |name: &str| {
            std::fs::create_dir_all(scratch.path().join(name)).unwrap();
            let report = Report { experiment: name.into(), ..Report::default() };
            let path = scratch.path().join(name).join("report.json");
            std::fs::write(path, serde_json::to_vec(&report).unwrap()).unwrap();
        };
        write("b");
        write("a");
        let names: Vec<_> =
            reports(scratch.path()).unwrap().into_iter().map(|report| report.experiment).collect();
        assert_eq!(names, ["a", "b"]);
        std::fs::write(scratch.path().join("b/report.json"), "{").unwrap();
        assert!(reports(scratch.path()).unwrap_err().to_string().contains("not a report of this release"));
    }
}
