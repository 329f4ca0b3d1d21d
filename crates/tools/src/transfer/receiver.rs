//! The receiving end: trusts no name, writes beside the final name, and renames what is proved right.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::announced::{hear_hello, hear_manifest};
use super::destination::Destination;
use super::frame::{Digest, Frame, Reader};
use super::manifest::{Entry, Kind};
use super::outward::Outward;
use super::part::Part;
use super::resume::Whole;
use super::survey::{Plan, survey};
use super::{CHUNK_BYTES, Error, Observer, Report};
use crate::exit::{Code, Failure};

/// Bytes taken off the stream after an `Abort`, so that the sender gets to read it.
const DRAIN_BYTES_MAX: u64 = 64 << 20;
/// And for how long at most.
const DRAIN_TIME: Duration = if cfg!(test) { Duration::from_millis(300) } else { Duration::from_secs(10) };

/// Receives one transfer from `stream` into `destination`.
///
/// # Errors
/// [`Error`]; the sender has been told, and what arrived of an unfinished file stays in its `.weft-part`.
pub fn receive<S>(stream: &S, destination: &Destination, observer: &dyn Observer) -> Result<Report, Error>
where
    S: Sync,
    for<'a> &'a S: Read + Write,
{
    receive_in_turn(stream, destination, observer, || ())
}

/// As [`receive`], but takes nothing before `turn` has returned, and drops what it returned in the end. The sender hears all
/// the while that somebody is here.
///
/// # Errors
/// As for [`receive`].
pub fn receive_in_turn<S, T>(
    stream: &S,
    destination: &Destination,
    observer: &dyn Observer,
    turn: impl FnOnce() -> T,
) -> Result<Report, Error>
where
    S: Sync,
    for<'a> &'a S: Read + Write,
{
    let outward = Outward::new(stream);
    let mut reader = Reader::new(stream);
    thread::scope(|scope| {
        let outward = &outward;
        let alive = outward.start_beat(scope);
        let _turn = turn();
        let result = match &alive {
            Ok(_) => run(outward, &mut reader, destination, observer),
            Err(failure) => Err(failure.clone().into()),
        };
        if let Err(error) = &result {
            tell(outward, &mut reader, error);
        }
        // The heart stops.
        outward.give_up();
        drop(alive);
        result
    })
}

fn run<S, R: Read>(
    outward: &Outward<'_, S>,
    reader: &mut Reader<R>,
    destination: &Destination,
    observer: &dyn Observer,
) -> Result<Report, Error>
where
    for<'a> &'a S: Write,
{
    hear_hello(reader)?;
    let entries = hear_manifest(reader)?;
    let plan = survey(destination, &entries)?;
    let mut receiving = Receiving {
        outward,
        reader,
        destination,
        observer,
        entries: &entries,
        plan,
        whole: Whole::default(),
        next: 0,
        missing: Vec::new(),
        report: Report::default(),
    };
    receiving.tell_plan()?;
    let directories = destination.make_directories(&entries)?;
    let digest = receiving.take_files()?;
    // Links come last, so that no file of this transfer can go through one.
    destination.make_links(&entries)?;
    destination.finish_directories(&directories, &receiving.missing)?;
    outward.frame(&Frame::Complete { digest })?;
    Ok(Report { pauses: receiving.reader.take_pauses(), ..receiving.report })
}

/// Tells the sender why it ends here, and takes what is under way so that it can read that.
fn tell<S, R: Read>(outward: &Outward<'_, S>, reader: &mut Reader<R>, error: &Error)
where
    for<'a> &'a S: Write,
{
    let failure = match error {
        Error::Local(failure) => failure.clone(),
        Error::Protocol(what) => Failure::new(Code::Protocol, what.clone(), ""),
        Error::Stream(_) | Error::Unheard(_) | Error::Peer(_) => return,
    };
    if outward.frame(&Frame::Abort(failure)).is_ok() {
        let mut rest = reader.stream_mut().take(DRAIN_BYTES_MAX);
        let (deadline, mut buffer) = (Instant::now() + DRAIN_TIME, vec![0; CHUNK_BYTES]);
        // Whatever ends this is of no interest any more.
        while rest.read(&mut buffer).is_ok_and(|len| len > 0) && Instant::now() < deadline {}
    }
}

struct Receiving<'a, 's, S, R> {
    outward: &'a Outward<'s, S>,
    reader: &'a mut Reader<R>,
    destination: &'a Destination,
    observer: &'a dyn Observer,
    entries: &'a [Entry],
    plan: Plan,
    whole: Whole,
    /// The first file that has not come: they come in the order of the manifest.
    next: u64,
    /// Files that did not come.
    missing: Vec<&'a Entry>,
    report: Report,
}

impl<S, R: Read> Receiving<'_, '_, S, R>
where
    for<'b> &'b S: Write,
{
    /// Takes file after file; returns the digest of the whole, on which both ends agree.
    #[expect(clippy::wildcard_enum_match_arm, reason = "every other frame is out of turn")]
    fn take_files(&mut self) -> Result<Digest, Error> {
        loop {
            match self.reader.next_frame()? {
                Frame::Start { index, offset } => self.take_file(index, offset)?,
                Frame::Skip { index } => self.skip_file(index)?,
                Frame::End { digest } => return self.check_whole(digest),
                Frame::Abort(failure) => return Err(Error::Peer(failure)),
                _ => return Err(Error::Protocol("a frame came out of turn".into())),
            }
        }
    }

    fn check_whole(&mut self, sent_digest: Digest) -> Result<Digest, Error> {
        let digest = self.whole.digest();
        if *digest.as_bytes() != sent_digest {
            let what = "the digest over all files differs between the two ends";
            return Err(
                Failure::new(Code::Digest, what, "send again; if it repeats, check both machines").into()
            );
        }
        self.report.digest = digest.to_hex().to_string();
        Ok(sent_digest)
    }

    fn tell_plan(&mut self) -> Result<(), Error> {
        for (&index, part) in &self.plan.parts {
            let digest = *part.hasher.finalize().as_bytes();
            self.outward.frame(&Frame::Have { index, offset: part.len, digest })?;
        }
        for (&index, &digest) in &self.plan.existing {
            self.outward.frame(&Frame::Exists { index, digest })?;
        }
        self.outward.frame(&Frame::PlanEnd)?;
        let files = self.entries.iter().filter(|e| matches!(e.kind, Kind::File { .. })).count() as u64;
        let bytes = self.entries.iter().map(Entry::size).sum();
        let existing_bytes: u64 = self.plan.existing.keys().map(|&i| self.size_at(i)).sum();
        let part_bytes: u64 = self.plan.parts.values().map(|p| p.len).sum();
        self.observer.planned(files, bytes, existing_bytes + part_bytes);
        Ok(())
    }

    fn size_at(&self, index: u64) -> u64 {
        usize::try_from(index).ok().and_then(|i| self.entries.get(i)).map_or(0, Entry::size)
    }

    /// The file that comes next, each once.
    fn turn_of(&mut self, index: u64) -> Result<Entry, Error> {
        let entry = usize::try_from(index).ok().and_then(|i| self.entries.get(i));
        match entry {
            Some(entry) if index >= self.next && matches!(entry.kind, Kind::File { .. }) => {
                self.next = index + 1;
                Ok(entry.clone())
            }
            _ => Err(Error::Protocol("it sends a file that it did not announce, or twice".into())),
        }
    }

    fn skip_file(&mut self, index: u64) -> Result<(), Error> {
        let entry = self.turn_of(index)?;
        let digest = self.plan.existing.remove(&index);
        let digest = digest.ok_or_else(|| Error::Protocol("it leaves out a file that is not here".into()))?;
        // If it cannot be removed it is litter, and no more.
        let _ = self.destination.parent(&entry).map(|dir| Part::forget_finished(&dir, entry.file_name()));
        self.report.present_bytes += entry.size();
        self.whole.add(index, &digest);
        self.done(index, &entry)
    }

    fn done(&mut self, index: u64, entry: &Entry) -> Result<(), Error> {
        self.report.files += 1;
        self.report.bytes += entry.size();
        self.observer.finished(Path::new(OsStr::from_bytes(&entry.name)));
        Ok(self.outward.frame(&Frame::Done { index })?)
    }

    fn take_file(&mut self, index: u64, offset: u64) -> Result<(), Error> {
        let entry = self.turn_of(index)?;
        let mut part = match self.plan.parts.remove(&index) {
            Some(part) => part,
            None => self.destination.part(&entry)?,
        };
        if offset != 0 && offset != part.len {
            part.leave();
            return Err(Error::Protocol("it goes on where nothing was promised".into()));
        }
        let told = if self.plan.existing.contains_key(&index) { entry.size() } else { part.len };
        if told > offset {
            self.observer.differing(told - offset);
        }
        let sent_digest = match self.fill(index, &entry, &mut part, offset) {
            Ok(Ok(digest)) => digest,
            // The sender cannot read on.
            Ok(Err(failure)) => {
                part.leave();
                return self.failed(index, failure);
            }
            Err(error) => {
                part.leave();
                return Err(error);
            }
        };
        self.whole.add(index, &sent_digest);
        if *part.hasher.finalize().as_bytes() != sent_digest || part.len != entry.size() {
            let what = format!("{:?} did not arrive as it was sent", self.destination.label(&entry));
            let removed = part.remove();
            removed.map_err(|e| self.destination.failed(&entry, &e))?;
            return self.failed(index, Failure::new(Code::Digest, what, "send it again"));
        }
        let finished = part.finish(&entry, self.destination.overwrite);
        finished.map_err(|e| self.destination.part_failed(&entry, &e))?;
        self.done(index, &entry)
    }

    /// The sender has something of a file: what lies there beyond `offset` is of no use.
    fn begin(&mut self, index: u64, entry: &Entry, part: &mut Part, offset: u64) -> Result<(), Error> {
        if self.plan.existing.contains_key(&index) && !self.destination.overwrite {
            return Err(self.destination.exists(entry));
        }
        self.report.present_bytes += offset;
        part.truncate(offset).map_err(|e| self.destination.failed(entry, &e))
    }

    /// Writes the data of one file from `offset` on; gives its digest, or the sender's reason why it stops.
    #[expect(clippy::wildcard_enum_match_arm, reason = "every other frame is out of turn")]
    fn fill(
        &mut self,
        index: u64,
        entry: &Entry,
        part: &mut Part,
        offset: u64,
    ) -> Result<Result<Digest, Failure>, Error> {
        let mut has_begun = false;
        loop {
            let frame = self.reader.next_frame()?;
            if !has_begun && matches!(frame, Frame::Data | Frame::FileEnd { .. }) {
                self.begin(index, entry, part, offset)?;
                has_begun = true;
            }
            match frame {
                Frame::Data => {
                    let data = self.reader.data();
                    if part.len + data.len() as u64 > entry.size() {
                        return Err(Error::Protocol("it sends more than it announced".into()));
                    }
                    part.write(data).map_err(|e| self.destination.failed(entry, &e))?;
                    self.observer.advanced(data.len() as u64);
                }
                Frame::FileEnd { digest } => return Ok(Ok(digest)),
                Frame::FileFail(failure) => return Ok(Err(failure)),
                Frame::Abort(failure) => return Err(Error::Peer(failure)),
                _ => return Err(Error::Protocol("a frame came into the middle of a file".into())),
            }
        }
    }

    fn failed(&mut self, index: u64, failure: Failure) -> Result<(), Error> {
        self.observer.failed(&failure);
        self.outward.frame(&Frame::Failed { index, failure: failure.clone() })?;
        self.report.failures.add(failure);
        self.missing.extend(usize::try_from(index).ok().and_then(|index| self.entries.get(index)));
        Ok(())
    }
}
