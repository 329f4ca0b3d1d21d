//! The sending end: tells the manifest, hears what the receiver has, sends the rest.
//!
//! One thread writes and another reads what the receiver says (`Done`, `Failed`, `Abort`), so that the receiver never waits
//! for us to listen, and an `Abort` or a silent receiver stops us at once.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::thread;

use super::frame::{self, Digest, Frame, HEAD_BYTES, Reader, VERSION};
use super::manifest::{Kind, Manifest, Source};
use super::outward::Outward;
use super::resume::{Claim, Present, Verified, Whole, hash_prefix};
use super::{CHUNK_BYTES, Error, Failures, Observer, Report};
use crate::exit::{Code, Failure};

/// Sends everything in `manifest` over `stream`.
///
/// ```no_run
/// use weft_tools::transfer::{manifest::{Links, Manifest}, sender};
///
/// let stream = std::net::TcpStream::connect("node7:9000")?;
/// let manifest = Manifest::collect(&["photos".into()], Links::Keep)?;
/// let report = sender::send(&stream, &manifest, &())?;
/// assert_eq!(report.failures.count, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error`]; files that failed alone are in [`Report::failures`] instead.
pub fn send<S>(stream: &S, manifest: &Manifest, observer: &dyn Observer) -> Result<Report, Error>
where
    S: Sync,
    for<'a> &'a S: Read + Write,
{
    let outward = Outward::new(stream);
    let mut reader = Reader::new(stream);
    thread::scope(|scope| {
        let alive = outward.start_beat(scope)?;
        let result = talk(&outward, &mut reader, manifest, observer);
        // The heart stops.
        outward.give_up();
        drop(alive);
        result
    })
}

fn talk<S, R: Read + Send>(
    outward: &Outward<'_, S>,
    reader: &mut Reader<R>,
    manifest: &Manifest,
    observer: &dyn Observer,
) -> Result<Report, Error>
where
    S: Sync,
    for<'a> &'a S: Write,
{
    tell_manifest(outward, manifest).map_err(|e| word_of_the_peer(reader).unwrap_or(e))?;
    let present = hear_plan(reader, manifest)?;
    let present_bytes = present.values().map(|c| c.len).sum();
    observer.planned(manifest.files(), manifest.bytes(), present_bytes);
    thread::scope(|scope| {
        let hearing = || {
            let heard = hear_results(reader, manifest, observer);
            if heard.is_err() {
                // What waits for room waits in vain.
                outward.give_up();
            }
            heard
        };
        let listener = thread::Builder::new().spawn_scoped(scope, hearing);
        let listener = listener.map_err(|error| Failure::thread(&error))?;
        let sent = Sending { outward, manifest, present: &present, observer }.run();
        if let Err(Error::Local(failure)) = &sent {
            // Else each end would wait for the other. If this fails the peer has gone.
            let _ = outward.frame(&Frame::Abort(failure.clone()));
        }
        let heard = listener.join().unwrap_or_else(|_| Err(Error::Protocol("the listener panicked".into())));
        conclude(sent, heard)
    })
}

fn tell_manifest<S>(outward: &Outward<'_, S>, manifest: &Manifest) -> Result<(), Error>
where
    for<'a> &'a S: Write,
{
    let mut bytes = Vec::new();
    Frame::Hello { version: VERSION }.write(&mut bytes)?;
    for source in &manifest.sources {
        Frame::Entry(source.entry.clone()).write(&mut bytes)?;
        if bytes.len() >= CHUNK_BYTES {
            outward.bytes(&bytes)?;
            bytes.clear();
        }
    }
    Frame::ManifestEnd { entries: manifest.sources.len() as u64 }.write(&mut bytes)?;
    Ok(outward.bytes(&bytes)?)
}

/// After a failed write: what the peer said before it closed.
fn word_of_the_peer(reader: &mut Reader<impl Read>) -> Option<Error> {
    loop {
        match reader.next_frame() {
            Ok(Frame::Abort(failure)) => return Some(Error::Peer(failure)),
            Ok(_) => {}
            Err(error @ Error::Unheard(_)) => return Some(error),
            Err(_) => return None,
        }
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "every other frame is out of turn")]
fn hear_plan(reader: &mut Reader<impl Read>, manifest: &Manifest) -> Result<Present, Error> {
    let mut present = Present::new();
    loop {
        let (index, offset, digest) = match reader.next_frame()? {
            Frame::Have { index, offset, digest } => (index, Some(offset), digest),
            Frame::Exists { index, digest } => (index, None, digest),
            Frame::PlanEnd => return Ok(present),
            Frame::Abort(failure) => return Err(Error::Peer(failure)),
            frame => return Err(unexpected(&frame)),
        };
        let Some(source) = source_of(manifest, index) else {
            return Err(Error::Protocol("it has a file that was not announced".into()));
        };
        let len = offset.unwrap_or_else(|| source.entry.size());
        if len > source.entry.size() {
            return Err(Error::Protocol("it claims more of a file than there is".into()));
        }
        present.insert(index, Claim { len, digest, is_final: offset.is_none() });
    }
}

fn source_of(manifest: &Manifest, index: u64) -> Option<&Source> {
    manifest.sources.get(usize::try_from(index).ok()?)
}

/// What the receiver said in the end.
struct Heard {
    files: u64,
    bytes: u64,
    failures: Failures,
    digest: Digest,
}

#[expect(clippy::wildcard_enum_match_arm, reason = "every other frame is out of turn")]
fn hear_results(
    reader: &mut Reader<impl Read>,
    manifest: &Manifest,
    observer: &dyn Observer,
) -> Result<Heard, Error> {
    let mut heard = Heard { files: 0, bytes: 0, failures: Failures::default(), digest: [0; 32] };
    // The first file that nothing was said of yet: they come in their order.
    let mut next = 0;
    loop {
        match reader.next_frame()? {
            Frame::Done { index } => {
                let source = turn_of(manifest, index, &mut next)?;
                heard.files += 1;
                heard.bytes += source.entry.size();
                observer.finished(Path::new(&source.entry.label()));
            }
            Frame::Failed { index, failure } => {
                turn_of(manifest, index, &mut next)?;
                observer.failed(&failure);
                heard.failures.add(failure);
            }
            Frame::Complete { digest } => return Ok(Heard { digest, ..heard }),
            Frame::Abort(failure) => return Err(Error::Peer(failure)),
            frame => return Err(unexpected(&frame)),
        }
    }
}

/// The file of which the receiver says what became of it, once.
fn turn_of<'a>(manifest: &'a Manifest, index: u64, next: &mut u64) -> Result<&'a Source, Error> {
    let source = source_of(manifest, index).filter(|_| index >= *next);
    *next = index.saturating_add(1);
    source.ok_or_else(|| Error::Protocol("it got a file that was not sent, or twice".into()))
}

fn unexpected(frame: &Frame) -> Error {
    let text = format!("{frame:?}");
    let name = text.split([' ', '(']).next().unwrap_or_default();
    Error::Protocol(format!("{name} came out of turn"))
}

/// What the sending thread did.
struct Sent {
    present_bytes: u64,
    digest: blake3::Hash,
}

/// The peer's word weighs more than a broken pipe, which only follows from it; a local cause weighs more than both.
fn conclude(sent: Result<Sent, Error>, heard: Result<Heard, Error>) -> Result<Report, Error> {
    let (sent, heard) = match (sent, heard) {
        (Ok(sent), Ok(heard)) => (sent, heard),
        (Err(local @ (Error::Local(_) | Error::Protocol(_))), _) => return Err(local),
        (_, Err(error)) | (Err(error), Ok(_)) => return Err(error),
    };
    if sent.digest != heard.digest {
        let what = "the digest over all files differs between the two ends";
        return Err(Failure::new(Code::Digest, what, "send again; if it repeats, check both machines").into());
    }
    Ok(Report {
        files: heard.files,
        bytes: heard.bytes,
        present_bytes: sent.present_bytes,
        pauses: super::Pauses::default(),
        digest: sent.digest.to_hex().to_string(),
        failures: heard.failures,
    })
}

struct Sending<'a, 's, S> {
    outward: &'a Outward<'s, S>,
    manifest: &'a Manifest,
    present: &'a Present,
    observer: &'a dyn Observer,
}

/// How far one file came.
enum Outcome {
    Sent(Digest),
    Skipped(Digest),
    /// It could not be read; the receiver knows.
    Failed,
}

impl<S> Sending<'_, '_, S>
where
    for<'b> &'b S: Write,
{
    fn run(&self) -> Result<Sent, Error> {
        let mut whole = Whole::default();
        let mut present_bytes = 0;
        for (index, source) in (0..).zip(&self.manifest.sources) {
            if !matches!(source.entry.kind, Kind::File { .. }) {
                continue;
            }
            match self.send_file(index, source, &mut present_bytes)? {
                Outcome::Sent(digest) | Outcome::Skipped(digest) => whole.add(index, &digest),
                Outcome::Failed => {}
            }
        }
        let digest = whole.digest();
        self.write(&Frame::End { digest: *digest.as_bytes() })?;
        Ok(Sent { present_bytes, digest })
    }

    fn write(&self, frame: &Frame) -> Result<(), Error> {
        Ok(self.outward.frame(frame)?)
    }

    fn send_file(&self, index: u64, source: &Source, present_bytes: &mut u64) -> Result<Outcome, Error> {
        let opened = source.open();
        let found = opened.and_then(|file| {
            let verified = file.map(|mut file| Ok((self.verify(index, &mut file)?, file)));
            verified.transpose()
        });
        let (verified, file) = match found {
            Ok(Some(found)) => found,
            Ok(None) => {
                self.write(&Frame::Start { index, offset: 0 })?;
                return self.changed(source);
            }
            Err(error) => {
                self.write(&Frame::Start { index, offset: 0 })?;
                return self.fail(source, &error);
            }
        };
        let (offset, hasher) = match verified {
            Verified::Same(digest) => {
                *present_bytes += source.entry.size();
                self.write(&Frame::Skip { index })?;
                return Ok(Outcome::Skipped(digest));
            }
            Verified::Prefix(offset, hasher) => (offset, *hasher),
            Verified::Nothing => (0, blake3::Hasher::new()),
        };
        *present_bytes += offset;
        self.write(&Frame::Start { index, offset })?;
        self.send_rest(source, file, offset, hasher)
    }

    /// Compares what the receiver has with what we have.
    fn verify(&self, index: u64, file: &mut File) -> std::io::Result<Verified> {
        let Some(claim) = self.present.get(&index) else { return Ok(Verified::Nothing) };
        match hash_prefix(file, claim.len) {
            Ok(hasher) if *hasher.finalize().as_bytes() == claim.digest => Ok(if claim.is_final {
                Verified::Same(claim.digest)
            } else {
                Verified::Prefix(claim.len, Box::new(hasher))
            }),
            // It is another file, or shorter now, or cannot be read; in that case sending it will say so.
            Ok(_) | Err(_) => {
                self.observer.differing(claim.len);
                file.rewind().map(|()| Verified::Nothing)
            }
        }
    }

    fn send_rest(
        &self,
        source: &Source,
        mut file: File,
        offset: u64,
        mut hasher: blake3::Hasher,
    ) -> Result<Outcome, Error> {
        let mut buffer = vec![0; HEAD_BYTES + CHUNK_BYTES];
        let mut left = source.entry.size() - offset;
        loop {
            let len = match file.read(&mut buffer[HEAD_BYTES..]) {
                Ok(len) => len,
                Err(error) => return self.fail(source, &error),
            };
            let Some(rest) = left.checked_sub(len as u64) else { return self.changed(source) };
            left = rest;
            if len == 0 {
                break;
            }
            buffer[..HEAD_BYTES].copy_from_slice(&frame::data_head(len));
            hasher.update(&buffer[HEAD_BYTES..HEAD_BYTES + len]);
            self.outward.bytes(&buffer[..HEAD_BYTES + len])?;
            self.observer.advanced(len as u64);
        }
        match file.metadata() {
            Ok(now) if left == 0 && source.entry.is_of(&now) => {}
            Ok(_) => return self.changed(source),
            Err(error) => return self.fail(source, &error),
        }
        let digest = *hasher.finalize().as_bytes();
        self.write(&Frame::FileEnd { digest })?;
        Ok(Outcome::Sent(digest))
    }

    fn fail(&self, source: &Source, error: &std::io::Error) -> Result<Outcome, Error> {
        self.write(&Frame::FileFail(failed(source, error)))?;
        Ok(Outcome::Failed)
    }

    fn changed(&self, source: &Source) -> Result<Outcome, Error> {
        let what = format!("{:?} changed while it was sent", source.path);
        let failure = Failure::new(Code::Source, what, "send it again when nobody writes it");
        self.write(&Frame::FileFail(failure))?;
        Ok(Outcome::Failed)
    }
}

fn failed(source: &Source, error: &std::io::Error) -> Failure {
    Failure::source(&source.path.to_string_lossy(), error)
}
