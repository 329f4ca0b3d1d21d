//! Memory that packets are laid in once and leave from.
//!
//! One writer fills a [`FrameBuffer`] from its beginning: room for a head, what the user sends behind it, room for the next
//! head. When a packet leaves for the first time its head is written where room was left, and the packet is *frozen*:
//! nobody writes to it again, so that handles to it, [`Frames`], may be read by any thread while the writer goes on
//! behind. A handle holds as many packets as lie end to end, so that a run of them costs one, and not one each.
//!
//! This room must not know what a packet is.
//!
//! ```
//! use weft_frame::FrameBuffer;
//!
//! let mut buffer = FrameBuffer::with_capacity(64);
//! let start = buffer.skip(4);
//! buffer.put(b"body");
//! buffer.write(start, b"head");
//! buffer.freeze(8);
//! let mut frames = buffer.frames(0..8).to_frames();
//! buffer.put(b"next");
//! buffer.freeze(12);
//! assert!(frames.join(&buffer.frames(8..12)));
//! assert_eq!(&frames[..], b"headbodynext");
//! ```

mod buffer;
mod frames;
mod memory;
mod pages;

pub use buffer::FrameBuffer;
pub use frames::{Frames, FramesRef};
pub use pages::Pages;
