//! A report as a self-contained page that follows the reader's light or dark theme.

use std::fmt::Write as _;

use super::{ArmReport, Report, figures};
use crate::plot::{COLOURS, escape};

const STYLE: &str = "
:root { color-scheme: light dark; --back: #fff; --text: #1c2026; --faint: #667; --line: #d5d8de; --panel: #f6f7f9;
 --c0: #1f6feb; --c1: #c4501b; --c2: #1a7f37; --c3: #8250df; --c4: #bf3989; --c5: #0b7d8a; --c6: #9a6700; --c7: #57606a; }
@media (prefers-color-scheme: dark) { :root { --back: #101418; --text: #e6e9ee; --faint: #9aa4b2; --line: #2d343d; --panel: #181d23;
 --c0: #6cb0ff; --c1: #ff9d6b; --c2: #5fd17a; --c3: #c297ff; --c4: #ff8fc7; --c5: #5cd0dc; --c6: #e3b341; --c7: #a9b3bf; } }
body { margin: 0 auto; padding: 24px; max-width: 1100px; background: var(--back); color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
h1 { margin: 0 0 4px; } h2 { margin: 36px 0 8px; font-size: 19px; } h3 { margin: 20px 0 4px; font-size: 15px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; color: var(--faint); } dt { font-weight: 600; } dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; white-space: nowrap; }
th, td { padding: 4px 10px; border-bottom: 1px solid var(--line); text-align: right; } th { color: var(--faint); font-weight: 600; }
th:nth-child(-n+2), td:nth-child(-n+2), .notes td:last-child, .notes th:last-child { text-align: left; }
.notes td:last-child { white-space: normal; min-width: 220px; }
.warn { padding: 10px 14px; border-left: 4px solid var(--c1); background: var(--panel); }
figure { margin: 0 0 20px; padding: 12px; background: var(--panel); border-radius: 8px; } figcaption { font-weight: 600; }
svg { width: 100%; height: auto; overflow: visible; } svg text { fill: var(--faint); font: 12px system-ui, sans-serif; }
.end { text-anchor: end; } .mid { text-anchor: middle; } .grid { stroke: var(--line); fill: none; } .axis { stroke: var(--faint); fill: none; }
.legend { margin: 6px 0 0; color: var(--faint); } .key { margin-right: 14px; white-space: nowrap; } .key i { display: inline-block; width: 18px; height: 10px; margin-right: 5px; border-radius: 2px; }
path[class^=l], g[class^=l] { fill: none; stroke-width: 1.8; } .d1 { stroke-dasharray: 7 3; } .d2 { stroke-dasharray: 2 3; } .d3 { stroke-dasharray: 9 3 2 3; } .thick { stroke-width: 3; stroke-dasharray: none; }
i.d1 { background: repeating-linear-gradient(90deg, var(--key) 0 7px, transparent 7px 10px); } i.d2 { background: repeating-linear-gradient(90deg, var(--key) 0 2px, transparent 2px 5px); }
i.d3 { background: repeating-linear-gradient(90deg, var(--key) 0 9px, transparent 9px 12px, var(--key) 12px 14px, transparent 14px 17px); } .pale { fill-opacity: .25; }
";

impl Report {
    /// The report as an HTML page.
    pub fn html(&self) -> String {
        let title = escape(&self.experiment);
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title><style>{STYLE}"
        );
        for colour in 0..COLOURS {
            let _ = write!(
                page,
                ".l{colour}{{stroke:var(--c{colour})}}.b{colour}{{--key:var(--c{colour});background:var(--c{colour});fill:var(--c{colour})}}"
            );
        }
        let _ = write!(page, "</style></head><body><h1>{title}</h1><dl>");
        for (name, value) in self.circumstances() {
            let _ = write!(page, "<dt>{}</dt><dd>{}</dd>", escape(&name), escape(&value));
        }
        page.push_str("</dl>");
        self.findings_section(&mut page);
        self.figures(&mut page);
        self.table_section(&mut page);
        page.push_str("</body></html>\n");
        page
    }

    fn findings_section(&self, page: &mut String) {
        let findings = self.findings();
        if let (Some(first), true) = (findings.first(), self.withheld.is_some()) {
            let _ = write!(page, r#"<p class="warn">{}</p>"#, escape(first));
        }
        let rest = &findings[usize::from(self.withheld.is_some())..];
        if !rest.is_empty() {
            page.push_str("<h2>Findings</h2><ul>");
            for finding in rest {
                let _ = write!(page, "<li>{}</li>", escape(finding));
            }
            page.push_str("</ul>");
        }
    }

    fn table_section(&self, page: &mut String) {
        let rows = self.cells();
        let notes = rows[0].last().is_some_and(|title| title == "note");
        let _ = write!(
            page,
            r#"<h2>Figures</h2><div class="wide"><table{}>"#,
            if notes { r#" class="notes""# } else { "" }
        );
        for (at, row) in rows.iter().enumerate() {
            let tag = if at == 0 { "th" } else { "td" };
            page.push_str("<tr>");
            for cell in row {
                let _ = write!(page, "<{tag}>{}</{tag}>", escape(cell));
            }
            page.push_str("</tr>");
        }
        page.push_str("</table></div>");
    }

    /// A block of charts for each function.
    fn figures(&self, page: &mut String) {
        let mut functions: Vec<&str> = Vec::new();
        for arm in &self.arms {
            let function = arm.function.as_deref().unwrap_or_default();
            if !functions.contains(&function) {
                functions.push(function);
            }
        }
        for function in functions {
            let arms: Vec<&ArmReport> = self
                .arms
                .iter()
                .filter(|arm| arm.function.as_deref().unwrap_or_default() == function)
                .collect();
            let block = figures::of(&arms);
            if !block.is_empty() {
                let name = if function.is_empty() { &self.experiment } else { function };
                let _ = write!(page, "<h2>{}</h2>{block}", escape(name));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{Axis, Comparison, Host, Latency, MannWhitney, Point};

    fn report() -> Report {
        let arm = |name: &str, factor: f64| ArmReport {
            arm: name.into(),
            function: Some("<fact>".into()),
            concurrency: Some(1),
            latency_us: Some(Latency { p50: 100.0 * factor, p90: 200.0 * factor, p99: 300.0 * factor }),
            start_us: Some(50.0 * factor),
            init_us: Some(20.0 * factor),
            first_us: Some(30.0 * factor),
            samples_us: (1..=50).map(|n| f64::from(n) * factor).collect(),
            series: (1..5)
                .map(|n| Point {
                    at_s: f64::from(n),
                    p90_us: Some(factor),
                    cold_starts: Some(1),
                    ..Point::default()
                })
                .collect(),
            note: Some("a | note & more".into()),
            ..ArmReport::default()
        };
        let test = MannWhitney::test(&[1.0, 2.0, 3.0], &[4.0, 5.0]).unwrap();
        Report {
            experiment: "x".into(),
            host: Host::describe(),
            commit: "abc".into(),
            arms: vec![arm("spawn", 20.0), arm("fork", 1.0)],
            ratios: BTreeMap::from([("spawn / fork".to_owned(), 20.0)]),
            comparisons: vec![Comparison {
                a: "spawn".into(),
                b: "fork".into(),
                function: "fact".into(),
                times: 20.0,
                test,
            }],
            ..Report::default()
        }
    }

    #[test]
    fn the_page_stands_alone_and_has_every_picture() {
        let page = report().html();
        for forbidden in ["http:", "https:", "<script", "<link", "src=", "url(", "NaN", "inf"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        for title in [
            "Start, loading",
            "how many calls",
            "quartiles",
            "90th percentile",
            "Cold starts",
            "prefers-color-scheme: dark",
        ] {
            assert!(page.contains(title), "{title}");
        }
        assert!(!page.contains("<fact>") && page.contains("&lt;fact&gt;"));
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
        assert_eq!(page.matches("<svg").count(), 5);
        // A report without data is a page all the same.
        assert!(Report::default().html().contains("<table>"));
    }

    fn titles(report: &Report) -> Vec<String> {
        let page = report.html();
        let captions = page.split("<figcaption>").skip(1);
        captions.map(|rest| rest.split('<').next().unwrap().to_owned()).collect()
    }

    #[test]
    fn levels_of_callers_are_drawn_by_callers_and_distributions_at_both_ends() {
        let row = |name: &str, callers: usize| ArmReport {
            arm: name.into(),
            function: Some("sleep node".into()),
            concurrency: Some(callers),
            latency_us: Some(Latency { p50: 1e3, p90: 2e3 * callers as f64, p99: 3e3 }),
            calls_per_s: Some(100.0),
            pss_bytes: Some(1 << 20),
            samples_us: vec![1e3, 2e3],
            ..ArmReport::default()
        };
        let arms: Vec<_> = [1, 4, 2].map(|callers| [row("a", callers), row("b", callers)]).concat();
        let report = Report { arms, ..Report::default() };
        assert_eq!(
            titles(&report),
            [
                "Latency by calls at once, 90th percentile",
                "Throughput by calls at once",
                "Memory by calls at once (PSS)",
                "Latency with the fewest calls at once: how many calls took at most so long",
                "Latency with the fewest calls at once: quartiles, and 1st to 99th percentile",
                "Latency with the most calls at once: how many calls took at most so long",
                "Latency with the most calls at once: quartiles, and 1st to 99th percentile",
            ]
        );
        let page = report.html();
        assert!(page.contains(">calls at once</text>") && page.contains(">MiB</text>"), "{page}");
        for (shown, times) in [("a × 1<", 2), ("a × 2<", 0), ("a × 4<", 2)] {
            assert_eq!(page.matches(&format!("</i>{shown}")).count(), times, "{shown}");
        }
    }

    #[test]
    fn a_row_says_over_what_its_points_stand() {
        let row = |axis, point: Point| ArmReport { axis, series: vec![point, point], ..ArmReport::default() };
        let memory = Point { at_s: 3.0, memory_bytes: Some(1), ..Point::default() };
        let call = Point { at_s: 1.0, latency_us: Some(1e3), ..Point::default() };
        let arms = vec![row(Axis::Instances, memory), row(Axis::Time, call)];
        let report = Report { arms, ..Report::default() };
        assert_eq!(titles(&report), ["Latency of each call over time", "Memory by instances"]);
        let page = report.html();
        assert!(page.contains(">instances</text>") && page.contains(">time, s</text>"), "{page}");
        let json = serde_json::to_string(&report.arms).unwrap();
        assert_eq!(json.matches("axis").count(), 1);
        let read: Vec<ArmReport> = serde_json::from_str(&json).unwrap();
        assert_eq!((read[0].axis, read[1].axis), (Axis::Instances, Axis::Time));
    }

    #[test]
    fn markdown_has_a_row_for_each_arm_and_says_what_was_compared() {
        let text = report().markdown();
        assert!(text.contains("| spawn | <fact> |") && text.contains("a \\| note & more"), "{text}");
        assert!(text.contains("spawn takes 20.00 × as long as fork (Mann–Whitney U = 0, p = 2.00e-1, n = 3 and 2, rank-biserial -1.00)"), "{text}");
        assert!(text.contains("- spawn / fork: 20.00"));
    }
}
