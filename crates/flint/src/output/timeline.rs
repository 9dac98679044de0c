//! Draws where an activation's time went, as bars.

use flint_model::Timeline;

use super::human_duration;

/// Width of the longest time.
const WIDTH: usize = 56;

/// One line per phase: its name, its length, and a bar between arrival and end. A call that is `repeated` was
/// on disk between its attempts.
///
/// ```text
/// admit         21 µs  ▏
/// start     12.10 ms   ████████████████
/// ```
pub(crate) fn draw_timeline(timeline: &Timeline, repeated: bool) -> String {
    let phases = phases(timeline, repeated);
    let Some(total) = phases.last().map(|phase| phase.end) else {
        return "no station was recorded".to_owned();
    };
    let bar = |phase: &Phase| {
        let (from, to) = (column(phase.begin, total), column(phase.end, total));
        let bar = if to > from { "█".repeat(to - from) } else { "▏".to_owned() };
        let offset = " ".repeat(from.min(WIDTH - 1));
        format!("{:<8} {:>9}  {offset}{bar}", phase.name, human_duration(phase.end - phase.begin))
    };
    let legend = |phase: &Phase| {
        let (begin, end) = (human_duration(phase.begin), human_duration(phase.end));
        format!("  {:<8} {begin:>9} – {end:<9}  {}", phase.name, phase.meaning)
    };
    let bars: Vec<_> = phases.iter().map(bar).collect();
    let legend: Vec<_> = phases.iter().map(legend).collect();
    format!("{}\n{:<8} {:>9}\n\n{}", bars.join("\n"), "in all", human_duration(total), legend.join("\n"))
}

fn column(us: u64, total: u64) -> usize {
    // At most WIDTH, since `us` ≤ `total`.
    (us as u128 * WIDTH as u128 / u128::from(total.max(1))) as usize
}

struct Phase {
    name: &'static str,
    meaning: &'static str,
    begin: u64,
    end: u64,
}

/// The time between consecutive stations.
fn phases(timeline: &Timeline, repeated: bool) -> Vec<Phase> {
    let first = match repeated {
        true => ("wait", "on disk, waiting for its attempt", timeline.queued),
        false => {
            let meaning =
                "authenticated, within limits, parameters merged; an accepted call is on disk until its turn";
            ("admit", meaning, timeline.queued)
        }
    };
    let stations = [
        first,
        ("place", "waited for an instance, or for the right to start one", timeline.placed),
        ("start", "the sandbox and the runtime came up", timeline.started),
        ("restore", "the snapshot was resumed", timeline.restored),
        ("load", "the function's code was loaded", timeline.initialised),
        ("run", "the function worked on the call", timeline.ran),
        ("collect", "logs and usage were collected, the instance set free", timeline.collected),
    ];
    let mut begin = 0;
    let mut phases = Vec::new();
    for (name, meaning, station) in stations {
        let Some(at) = station else { continue };
        // Stations are in order; if a clock says otherwise, a phase is empty rather than the sum wrong.
        let end = at.max(begin);
        phases.push(Phase { name, meaning, begin, end });
        begin = end;
    }
    phases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stand_one_after_the_other_and_missing_stations_are_left_out() {
        let timeline = Timeline {
            queued: Some(0),
            placed: Some(100),
            ran: Some(900),
            collected: Some(1000),
            ..Default::default()
        };
        let text = draw_timeline(&timeline, false);
        let lines: Vec<_> = text.lines().collect();
        assert!(
            lines[0].starts_with("admit") && lines[1].starts_with("place") && lines[2].starts_with("run"),
            "{text}"
        );
        assert!(lines[2].contains(&"█".repeat(WIDTH * 8 / 10)), "{text}");
        assert!(text.contains("1.00 ms") && !text.contains("restore"), "{text}");
        assert_eq!(draw_timeline(&Timeline::default(), false), "no station was recorded");
        let text = draw_timeline(&timeline, true);
        assert!(text.starts_with("wait ") && text.contains("on disk") && !text.contains("admit"), "{text}");
    }
}
