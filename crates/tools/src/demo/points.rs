//! What the demonstration measured: rounds, medians, the table and the CSV.

use serde::Serialize;

use crate::table::Table;
use crate::units;

/// Who carries the messages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Hash)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Contender {
    Cdp,
    Tcp,
    Udp,
}

impl Contender {
    pub(crate) const ALL: [Self; 3] = [Self::Cdp, Self::Tcp, Self::Udp];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cdp => "CDP",
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        }
    }
}

/// What is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Hash)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Load {
    /// Messages of so many bytes, one call each.
    Messages(usize),
    /// As much as possible with each call.
    Bulk,
}

impl Load {
    pub(crate) fn label(self) -> String {
        match self {
            Self::Messages(bytes) => format!("{bytes} B"),
            Self::Bulk => "bulk".to_owned(),
        }
    }
}

/// One window of one contender.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(crate) struct Window {
    pub(crate) contender: Contender,
    pub(crate) load: Load,
    pub(crate) round: usize,
    /// Bytes of a call.
    pub(crate) size_bytes: usize,
    /// User data that arrived.
    pub(crate) mbit_per_second: f64,
    /// Calls' worth of it, a second.
    pub(crate) messages_per_second: f64,
    /// Share of what was sent that did not arrive; only UDP loses.
    pub(crate) lost_share: f64,
}

/// Median and range of several rounds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median =
            if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
        Some(Self { median, min, max })
    }
}

/// All windows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Points {
    pub(crate) windows: Vec<Window>,
}

impl Points {
    /// The loads, in the order in which they were measured.
    pub(crate) fn loads(&self) -> Vec<Load> {
        let mut loads = Vec::new();
        for window in &self.windows {
            if !loads.contains(&window.load) {
                loads.push(window.load);
            }
        }
        loads
    }

    pub(crate) fn spread(&self, contender: Contender, load: Load, of: fn(&Window) -> f64) -> Option<Spread> {
        let chosen = self.windows.iter().filter(|w| w.contender == contender && w.load == load);
        Spread::of(chosen.map(of).collect())
    }

    /// The ratio of CDP to `rival`, round by round.
    pub(crate) fn ratio(&self, rival: Contender, load: Load) -> Option<Spread> {
        let of = |contender, round| {
            let found =
                self.windows.iter().find(|w| (w.contender, w.load, w.round) == (contender, load, round));
            found.map(|w| w.mbit_per_second)
        };
        let rounds = self.windows.iter().map(|w| w.round + 1).max().unwrap_or(0);
        let ratios = (0..rounds).filter_map(|round| {
            let (ours, theirs) = (of(Contender::Cdp, round)?, of(rival, round)?);
            (theirs > 0.0).then(|| ours / theirs)
        });
        Spread::of(ratios.collect())
    }

    /// The table that people read.
    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new(&[
            "message",
            "CDP Mbit/s",
            "TCP Mbit/s",
            "UDP Mbit/s",
            "CDP messages/s",
            "CDP : TCP",
            "CDP : UDP",
        ]);
        for load in self.loads() {
            let rate = |contender| {
                let spread = self.spread(contender, load, |w| w.mbit_per_second);
                spread.map_or_else(|| "-".to_owned(), |spread| figures(spread.median))
            };
            let ratio = |rival| {
                self.ratio(rival, load)
                    .map_or_else(|| "-".to_owned(), |spread| format!("{:.2}", spread.median))
            };
            let messages = self
                .spread(Contender::Cdp, load, |w| w.messages_per_second)
                .map_or_else(|| "-".to_owned(), |spread| units::count(spread.median));
            table.row(vec![
                load.label(),
                rate(Contender::Cdp),
                rate(Contender::Tcp),
                rate(Contender::Udp),
                messages,
                ratio(Contender::Tcp),
                ratio(Contender::Udp),
            ]);
        }
        table
    }

    /// What the table does not show.
    pub(crate) fn remark(&self) -> String {
        let rounds = self.windows.iter().map(|w| w.round + 1).max().unwrap_or(0);
        let udp = self.windows.iter().filter(|w| w.contender == Contender::Udp);
        let lost = udp.map(|w| w.lost_share).fold(0.0, f64::max);
        let rounds = if rounds == 1 { "one round".to_owned() } else { format!("medians of {rounds} rounds") };
        format!("Rates are of what arrived, {rounds}. UDP lost up to {:.0} % of what was sent.", lost * 100.0)
    }

    /// Every window as a line; the header names the units.
    pub(crate) fn csv(&self) -> String {
        let mut text =
            String::from("protocol,message,size_bytes,round,mbit_per_s,messages_per_s,lost_share\n");
        for w in &self.windows {
            let load = match w.load {
                Load::Messages(_) => "message",
                Load::Bulk => "bulk",
            };
            text.push_str(&format!(
                "{},{load},{},{},{:.3},{:.0},{:.6}\n",
                w.contender.name(),
                w.size_bytes,
                w.round + 1,
                w.mbit_per_second,
                w.messages_per_second,
                w.lost_share
            ));
        }
        text
    }

    /// The ratios that matter most, in one line.
    pub(crate) fn summary(&self) -> String {
        let told = |load, name: &str| {
            let ratio = |rival| self.ratio(rival, load).map(|spread| spread.median);
            match (ratio(Contender::Tcp), ratio(Contender::Udp)) {
                (Some(tcp), Some(udp)) => Some(format!("{name} {tcp:.2} of TCP and {udp:.2} of UDP")),
                _ => None,
            }
        };
        let parts: Vec<String> = [
            (Load::Bulk, "bulk"),
            (Load::Messages(64), "64 B messages"),
            (Load::Messages(1024), "1024 B messages"),
        ]
        .into_iter()
        .filter_map(|(load, name)| told(load, name))
        .collect();
        format!("CDP in ratio: {}", parts.join("; "))
    }
}

/// Three figures or a whole number.
fn figures(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn window(contender: Contender, load: Load, round: usize, rate: f64) -> Window {
        Window {
            contender,
            load,
            round,
            size_bytes: 64,
            mbit_per_second: rate,
            messages_per_second: rate * 1000.0,
            lost_share: 0.0,
        }
    }

    #[test]
    fn a_spread_is_the_median_and_the_range() {
        assert_eq!(Spread::of(vec![3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Spread::of(vec![4.0, 1.0]).map(|s| s.median), Some(2.5));
        assert_eq!(Spread::of(vec![]), None);
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let load = Load::Messages(64);
        let points = Points {
            windows: vec![
                window(Contender::Cdp, load, 0, 100.0),
                window(Contender::Tcp, load, 0, 50.0),
                window(Contender::Cdp, load, 1, 400.0),
                window(Contender::Tcp, load, 1, 100.0),
                window(Contender::Udp, load, 1, 0.0),
            ],
        };
        assert_eq!(points.ratio(Contender::Tcp, load), Some(Spread { median: 3.0, min: 2.0, max: 4.0 }));
        assert_eq!(points.ratio(Contender::Udp, load), None, "nothing is divided by zero");
        let table = points.table().lines().join("\n");
        assert!(table.contains("64 B") && table.contains("3.00"), "{table}");
        assert_eq!(points.csv().lines().count(), 6);
        assert!(points.csv().contains("CDP,message,64,2,400.000,400000,0.000000"));
    }
}
