//! How much of a machine what the target uses is.

use super::Read;
use super::summary::Estimate;
use super::summary::Track;
use jostle_profile::Usage;
use jostle_profile::UsedBy;
use jostle_profile::UsedQuantity;
use jostle_profile::UsedShare;
use jostle_profile::reading::Reading;
use jostle_profile::resource::Resource;
use std::collections::BTreeMap;

/// Bytes of the target that the disk of the peak must have moved at least, and
/// that another disk may have moved at most, as a share of them.
const MOST_OF_IT: f64 = 0.5;
const LITTLE_OF_IT: f64 = 0.1;
/// A share below this is small wherever the bytes went, percent.
const SMALL_PERCENT: f64 = 1.0;
/// Requests that cost a disk more than their bytes, bytes.
const SMALL_REQUEST: f64 = 65_536.0;
/// Use and probe that differ by no more than this agree, percentage points.
const AGREE_POINTS: f64 = 10.0;
/// What two copies leave of a source's performance that differs by no more than
/// this cannot be told apart.
const ALIKE: f64 = 0.05;

/// What shares refer to.
#[derive(Clone, Debug)]
pub struct Peaks {
    /// CPUs that the target has.
    pub cpus: usize,
    pub memory_bytes: u64,
    /// By resource id: the pressure of its source at 100 %, and where that comes
    /// from.
    pub sources: BTreeMap<String, (f64, String)>,
    /// By resource id, where the probe told one.
    pub probes: BTreeMap<String, Probe>,
    /// The disk that the storage peaks are of, with all that lie below it, or why
    /// there is none.
    pub disk: Read<Vec<String>>,
}

/// What the source of a resource told of the target.
#[derive(Clone, Debug, Default)]
pub struct Probe {
    /// Intensity of a second copy of the source that costs it as much.
    pub equivalent_intensity: f64,
    /// What the source keeps of its performance beside a copy at each intensity,
    /// ascending.
    pub beside_copy: Vec<(f64, f64)>,
}

impl Probe {
    fn kept(&self, intensity: f64) -> f64 {
        let mut before = (0.0, 1.0);
        for &(at, kept) in &self.beside_copy {
            if intensity <= at {
                let part = (intensity - before.0) / (at - before.0).max(1e-9);
                return before.1 + part * (kept - before.1);
            }
            before = (at, kept);
        }
        before.1
    }
}

impl Track {
    /// Everything as it stands in a profile.
    pub fn usage(&self, peaks: &Peaks) -> Usage {
        let shares = Shares { track: self, peaks };
        Usage {
            seconds: self.seconds(),
            parts: self.parts.len() as u64,
            quantities: shares
                .all()
                .into_iter()
                .map(|(name, found)| (name.to_string(), found.into()))
                .collect(),
        }
    }
}

struct Shares<'a> {
    track: &'a Track,
    peaks: &'a Peaks,
}

/// A quantity without its share.
struct Plain {
    estimate: Estimate,
    unit: &'static str,
    of: UsedBy,
    source: String,
}

impl Plain {
    fn without_share(self, reason: impl Into<String>) -> UsedQuantity {
        UsedQuantity {
            value: self.estimate.value,
            ci95: self.estimate.ci95,
            unit: self.unit.into(),
            of: self.of,
            source: self.source,
            resource: None,
            share: Reading::unavailable(reason),
        }
    }

    fn with_share(self, resource: Resource, share: Read<UsedShare>) -> UsedQuantity {
        UsedQuantity {
            resource: Some(resource.id().into()),
            share: share.into(),
            ..self.without_share("")
        }
    }
}

const NO_SOURCE: &str = "no source of interference is measured in this unit";

impl Shares<'_> {
    fn all(&self) -> Vec<(&'static str, Read<UsedQuantity>)> {
        let mut found = vec![("cpu", self.cpu())];
        found.extend(self.storage());
        found.extend(self.network());
        found.extend(self.memory());
        found.extend(self.counted());
        found
    }

    fn cpu(&self) -> Read<UsedQuantity> {
        let plain = Plain {
            estimate: self.track.cpu()?,
            unit: "CPU s/s",
            of: UsedBy::Target,
            source: self.track.cpu_source.clone(),
        };
        let cpus = self.peaks.cpus.max(1);
        let share = self.of_peak(
            Resource::CpuTime,
            plain.estimate,
            cpus as f64,
            format!(
                "the target's {cpus} {}",
                if cpus == 1 { "CPU" } else { "CPUs" }
            ),
        );
        Ok(plain.with_share(Resource::CpuTime, Ok(share)))
    }

    fn storage(&self) -> Vec<(&'static str, Read<UsedQuantity>)> {
        let track = self.track;
        let target = |estimate: Estimate, unit| Plain {
            estimate,
            unit,
            of: UsedBy::Target,
            source: track.storage_source.clone(),
        };
        let both = track.storage_both().map(|estimate| {
            let share = self.storage_share(estimate);
            target(estimate, "B/s").with_share(Resource::StorageBandwidth, share)
        });
        let part = "a part of `storage`, which has the share";
        let [read, written] = track.storage();
        let plain = |it: Read<Estimate>| it.map(|it| target(it, "B/s").without_share(part));
        let mut found = vec![
            ("storage", both),
            ("storage-read", plain(read)),
            ("storage-written", plain(written)),
        ];
        let ways = ["storage-reads", "storage-writes"].into_iter();
        for (way, (name, counted)) in ways.zip(track.operations()).enumerate() {
            let plain = match counted {
                Ok(counted) => Ok(target(counted, "operations/s")),
                // Everybody's on that disk are an upper bound.
                Err(_) => self.of_disk("operations/s", |disk| {
                    Some(if way == 0 { disk.reads } else { disk.writes })
                }),
            };
            found.push((name, plain.map(|it| it.without_share(NO_SOURCE))));
        }
        let flushes = self.of_disk("flushes/s", |disk| disk.flushes);
        let queue = self.of_disk("requests in flight", |disk| Some(disk.waited_seconds));
        let busy = self.of_disk("s/s", |disk| Some(disk.busy_seconds));
        found.push((
            "storage-flushes",
            flushes.map(|it| it.without_share(NO_SOURCE)),
        ));
        found.push(("storage-queue", queue.map(|it| it.without_share(NO_SOURCE))));
        let of_time = "time with at least one request in flight, which is no share of what the \
                       disk can do";
        found.push(("storage-busy", busy.map(|it| it.without_share(of_time))));
        found
    }

    /// What everybody did on the disk that the peak is of.
    fn of_disk(
        &self,
        unit: &'static str,
        field: impl Fn(&jostle_host::os::disks::DiskCounts) -> Option<f64>,
    ) -> Read<Plain> {
        let disk = &self.peaks.disk.as_ref().map_err(String::clone)?[0];
        Ok(Plain {
            estimate: self.track.of_disk(disk, field)?,
            unit,
            of: UsedBy::Machine,
            source: format!("/proc/diskstats, {disk}"),
        })
    }

    fn storage_share(&self, bytes: Estimate) -> Read<UsedShare> {
        let (peak, from) = self.peak_of(Resource::StorageBandwidth)?;
        let share = |bytes: Estimate| {
            let from = format!("{from}, on {}", self.disk_name());
            self.of_peak(Resource::StorageBandwidth, bytes, peak, from)
        };
        if bytes.ci95[1] / peak * 100.0 < SMALL_PERCENT {
            return Ok(share(bytes));
        }
        let disk = self.peaks.disk.as_ref().map_err(String::clone)?;
        let of_target = self.track.device_bytes();
        if !of_target.is_empty() {
            // The cgroup tells which device; what lies below another one shows
            // twice.
            let on_disk = of_target.get(&disk[0]).copied().unwrap_or(0.0);
            let elsewhere = of_target.iter().filter(|(name, _)| !disk.contains(name));
            return match elsewhere.max_by(|a, b| a.1.total_cmp(b.1)) {
                Some((name, more)) if *more > LITTLE_OF_IT * bytes.value => {
                    Err(self.wrong_disk(name, *more))
                }
                _ => Ok(share(bytes.times(on_disk / bytes.value.max(1e-9)))),
            };
        }
        let moved = self.track.disk_bytes();
        let other = moved.iter().filter(|(name, _)| !disk.contains(name));
        if let Some((name, more)) = other.max_by(|a, b| a.1.total_cmp(b.1))
            && *more > LITTLE_OF_IT * bytes.value
        {
            return Err(self.wrong_disk(name, *more));
        }
        let own = moved.get(&disk[0]).copied().unwrap_or(0.0);
        match own >= MOST_OF_IT * bytes.value {
            true => Ok(share(bytes)),
            false => Err(format!(
                "{} moved only {:.0} of the target's {:.0} B/s meanwhile: the rest went to a file \
                 system on no disk of this machine, or will be written later",
                self.disk_name(),
                own,
                bytes.value
            )),
        }
    }

    fn disk_name(&self) -> &str {
        let disk = self.peaks.disk.as_ref().ok();
        disk.map_or("no disk", |disk| disk[0].as_str())
    }

    fn wrong_disk(&self, name: &str, bytes: f64) -> String {
        format!(
            "the peak is of {}, and {name} moved {bytes:.0} B/s meanwhile; name a directory on the \
             target's disk with --scratch",
            self.disk_name()
        )
    }

    fn network(&self) -> Vec<(&'static str, Read<UsedQuantity>)> {
        let names = [
            ("network-received", "B/s"),
            ("network-received-packets", "packets/s"),
            ("network-sent", "B/s"),
            ("network-sent-packets", "packets/s"),
        ];
        let of = match self.track.namespace_apart {
            true => UsedBy::Namespace,
            false => UsedBy::Machine,
        };
        let rows = names.into_iter().zip(self.track.traffic());
        rows.map(|((name, unit), estimate)| {
            let found = estimate.map(|estimate| {
                let plain = Plain {
                    estimate,
                    unit,
                    of,
                    source: "/proc/PID/net/dev, without lo".into(),
                };
                if name != "network-sent" {
                    return plain.without_share("the source of interference sends bytes");
                }
                let share = self
                    .peak_of(Resource::NetworkBandwidth)
                    .map(|(peak, from)| {
                        self.of_peak(Resource::NetworkBandwidth, estimate, peak, from)
                    });
                plain.with_share(Resource::NetworkBandwidth, share)
            });
            (name, found)
        })
        .collect()
    }

    fn memory(&self) -> Vec<(&'static str, Read<UsedQuantity>)> {
        let row = |estimate: Read<Estimate>, source: &str| {
            let plain = Plain {
                estimate: estimate?,
                unit: "B",
                of: UsedBy::Target,
                source: source.into(),
            };
            let peak = self.peaks.memory_bytes as f64;
            let share = match peak > 0.0 {
                true => Ok(self.of_peak(
                    Resource::MemoryCapacity,
                    plain.estimate,
                    peak,
                    "the machine's memory".into(),
                )),
                false => Err("the size of the machine's memory is not known".to_string()),
            };
            Ok(plain.with_share(Resource::MemoryCapacity, share))
        };
        vec![
            ("resident", row(self.track.resident(), "/proc/PID/status")),
            (
                "page-cache",
                row(self.track.page_cache(), "memory.stat of its cgroup"),
            ),
        ]
    }

    /// What the counters beside the metric tell.
    fn counted(&self) -> Vec<(&'static str, Read<UsedQuantity>)> {
        let rows = [
            (
                "memory-traffic",
                "memory-bandwidth-total",
                "B/s",
                "resctrl",
                Some(Resource::MemoryBandwidth),
            ),
            (
                "llc-occupancy",
                "llc-occupancy",
                "B",
                "resctrl",
                Some(Resource::LlcCapacity),
            ),
            (
                "instructions",
                "instructions",
                "instructions/s",
                "perf",
                None,
            ),
            ("branches", "branches", "branches/s", "perf", None),
        ];
        rows.into_iter()
            .map(|(name, counter, unit, source, resource)| {
                let estimate = match self.track.counted(counter) {
                    Some(estimate) => estimate,
                    None => Err(match self.track.missing.get(counter) {
                        Some(reason) => reason.clone(),
                        None => "nothing was counted beside the metric".into(),
                    }),
                };
                let found = estimate.map(|estimate| {
                    let plain = Plain {
                        estimate,
                        unit,
                        of: UsedBy::Target,
                        source: source.into(),
                    };
                    match resource {
                        None => plain.without_share(NO_SOURCE),
                        Some(resource) => {
                            let share = self.peak_of(resource);
                            let share = share
                                .map(|(peak, from)| self.of_peak(resource, estimate, peak, from));
                            plain.with_share(resource, share)
                        }
                    }
                });
                (name, found)
            })
            .collect()
    }

    fn peak_of(&self, resource: Resource) -> Read<(f64, String)> {
        let known = self.peaks.sources.get(resource.id()).cloned();
        known.filter(|(peak, _)| *peak > 0.0).ok_or_else(|| {
            format!(
                "the peak of {resource} is not known: it was not measured, and the machine file \
                 has none (jostle machine --calibrate)"
            )
        })
    }

    fn of_peak(&self, resource: Resource, used: Estimate, peak: f64, from: String) -> UsedShare {
        let percent = used.times(100.0 / peak);
        UsedShare {
            percent: percent.value,
            ci95: percent.ci95,
            peak,
            peak_from: from,
            against_probe: self.against_probe(resource, percent),
        }
    }

    /// Whether the source of `resource` was slowed by the target as by a copy of
    /// itself that uses as much, and if not, what may be the reason.
    fn against_probe(&self, resource: Resource, share: Estimate) -> Option<String> {
        let probe = self.peaks.probes.get(resource.id())?;
        let equivalent = probe.equivalent_intensity;
        let used = share.value.min(100.0);
        let difference = equivalent - used;
        if difference.abs() <= AGREE_POINTS {
            return Some(format!(
                "agrees with the equivalent intensity of {equivalent:.0} %"
            ));
        }
        let (kept_by_use, kept) = (probe.kept(used), probe.kept(equivalent));
        if (kept_by_use - kept).abs() <= ALIKE {
            return Some(format!(
                "agrees with the equivalent intensity of {equivalent:.0} %: copies of the source \
                 at either cost it nearly the same ({:.0} and {:.0} % of its speed are left)",
                100.0 * kept_by_use,
                100.0 * kept
            ));
        }
        let explained = match resource {
            Resource::StorageBandwidth => self.explain_storage(difference),
            Resource::MemoryBandwidth | Resource::LlcCapacity => {
                "the target's order of access is not the source's: what it takes is not worth the \
                 same to the source"
                    .into()
            }
            _ => "not explained".into(),
        };
        Some(format!(
            "the equivalent intensity is {equivalent:.0} %, {:.0} points {}: {explained}",
            difference.abs(),
            if difference > 0.0 { "more" } else { "less" }
        ))
    }

    fn explain_storage(&self, difference: f64) -> String {
        let disk = |field: fn(&jostle_host::os::disks::DiskCounts) -> Option<f64>| {
            let name = &self.peaks.disk.as_ref().ok()?[0];
            Some(self.track.of_disk(name, field).ok()?.value)
        };
        let bytes = disk(|disk| Some(disk.read_bytes + disk.written_bytes));
        let operations = disk(|disk| Some(disk.reads + disk.writes));
        let queue = disk(|disk| Some(disk.waited_seconds));
        let written = disk(|disk| Some(disk.written_bytes));
        let (Some(bytes), Some(operations), Some(queue), Some(written)) =
            (bytes, operations, queue, written)
        else {
            return "not explained".into();
        };
        let size = bytes / operations.max(1e-9);
        let what = if difference < 0.0 {
            "few requests at once leave the disk's other slots free, and the source fills them"
        } else if written > bytes / 2.0 {
            "writes cost the disk more than their bytes"
        } else if size < SMALL_REQUEST {
            "small or scattered requests cost the disk more than their bytes"
        } else {
            "not explained"
        };
        let size = size / 1024.0;
        format!("{what} ({size:.0} KiB per request, {queue:.1} in flight on the disk)")
    }
}

#[cfg(test)]
mod tests;
