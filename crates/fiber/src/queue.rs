//! Run queues: doubly linked lists through the fibers themselves, so that queueing allocates nothing.

use std::ptr::{self, NonNull};

use weft_sync::face::UnsafeCell;

/// What a fiber carries to be in one queue at a time.
pub(crate) struct Link<T>(UnsafeCell<Neighbours<T>>);

struct Neighbours<T> {
    next: *const T,
    prev: *const T,
}

impl<T> Link<T> {
    pub(crate) fn new() -> Self {
        Self(UnsafeCell::new(Neighbours { next: ptr::null(), prev: ptr::null() }))
    }

    #[inline(always)]
    pub(crate) fn next(&self) -> *const T {
        // SAFETY: whoever holds the queue of this link is alone with it.
        self.0.with(|link| unsafe { (*link).next })
    }

    #[inline(always)]
    pub(crate) fn prev(&self) -> *const T {
        // SAFETY: as in `next`.
        self.0.with(|link| unsafe { (*link).prev })
    }

    #[inline(always)]
    pub(crate) fn set_next(&self, next: *const T) {
        // SAFETY: as in `next`.
        self.0.with_mut(|link| unsafe { (*link).next = next });
    }

    #[inline(always)]
    pub(crate) fn set_prev(&self, prev: *const T) {
        // SAFETY: as in `next`.
        self.0.with_mut(|link| unsafe { (*link).prev = prev });
    }
}

/// An element of a queue.
///
/// # Safety
///
/// `link` returns the same link each time, and nobody else uses it.
pub(crate) unsafe trait Linked: Sized {
    fn link(&self) -> &Link<Self>;
}

/// A queue with two ends. An element is in at most one queue, and outlives its stay there.
pub(crate) struct Queue<T> {
    head: *const T,
    tail: *const T,
    len: usize,
}

// SAFETY: a queue is a list of pointers; the elements say themselves whether they may change threads.
unsafe impl<T: Send + Sync> Send for Queue<T> {}

impl<T: Linked> Queue<T> {
    pub(crate) const fn new() -> Self {
        Self { head: ptr::null(), tail: ptr::null(), len: 0 }
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_null()
    }

    /// Whether `element` is the first.
    #[cfg(not(loom))]
    #[inline(always)]
    pub(crate) fn is_first(&self, element: NonNull<T>) -> bool {
        ptr::eq(self.head, element.as_ptr())
    }

    #[inline(always)]
    pub(crate) fn push_back(&mut self, element: NonNull<T>) {
        let link = link(element);
        link.set_next(ptr::null());
        link.set_prev(self.tail);
        match NonNull::new(self.tail.cast_mut()) {
            None => self.head = element.as_ptr(),
            Some(tail) => self::link(tail).set_next(element.as_ptr()),
        }
        self.tail = element.as_ptr();
        self.len += 1;
    }

    #[inline(always)]
    pub(crate) fn push_front(&mut self, element: NonNull<T>) {
        let link = link(element);
        link.set_prev(ptr::null());
        link.set_next(self.head);
        match NonNull::new(self.head.cast_mut()) {
            None => self.tail = element.as_ptr(),
            Some(head) => self::link(head).set_prev(element.as_ptr()),
        }
        self.head = element.as_ptr();
        self.len += 1;
    }

    #[inline(always)]
    pub(crate) fn pop_front(&mut self) -> Option<NonNull<T>> {
        let element = NonNull::new(self.head.cast_mut())?;
        self.head = link(element).next();
        match NonNull::new(self.head.cast_mut()) {
            None => self.tail = ptr::null(),
            Some(head) => link(head).set_prev(ptr::null()),
        }
        self.len -= 1;
        Some(element)
    }

    #[inline(always)]
    pub(crate) fn pop_back(&mut self) -> Option<NonNull<T>> {
        let element = NonNull::new(self.tail.cast_mut())?;
        self.tail = link(element).prev();
        match NonNull::new(self.tail.cast_mut()) {
            None => self.head = ptr::null(),
            Some(tail) => link(tail).set_next(ptr::null()),
        }
        self.len -= 1;
        Some(element)
    }
}

/// A queue that is only joined at its end and left at its start, which costs half of the other.
pub(crate) struct Line<T> {
    head: *const T,
    /// The last one, unless the line is empty.
    tail: *const T,
}

// SAFETY: as for `Queue`.
unsafe impl<T: Send + Sync> Send for Line<T> {}

impl<T: Linked> Line<T> {
    pub(crate) const fn new() -> Self {
        Self { head: ptr::null(), tail: ptr::null() }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_null()
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, element: NonNull<T>) {
        link(element).set_next(ptr::null());
        match NonNull::new(self.head.cast_mut()).and(NonNull::new(self.tail.cast_mut())) {
            None => self.head = element.as_ptr(),
            Some(tail) => self::link(tail).set_next(element.as_ptr()),
        }
        self.tail = element.as_ptr();
    }

    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<NonNull<T>> {
        let element = NonNull::new(self.head.cast_mut())?;
        self.head = link(element).next();
        Some(element)
    }
}

fn link<'a, T: Linked + 'a>(element: NonNull<T>) -> &'a Link<T> {
    // SAFETY: elements outlive their stay in a queue.
    unsafe { element.as_ref() }.link()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) struct Number {
        pub(crate) value: usize,
        link: Link<Self>,
    }

    // SAFETY: one link, used by queues only.
    unsafe impl Linked for Number {
        fn link(&self) -> &Link<Self> {
            &self.link
        }
    }

    // SAFETY: numbers change threads with the queue that holds them.
    unsafe impl Sync for Number {}
    // SAFETY: as above.
    unsafe impl Send for Number {}

    pub(crate) fn number(value: usize) -> NonNull<Number> {
        NonNull::from(Box::leak(Box::new(Number { value, link: Link::new() })))
    }

    pub(crate) fn value(number: NonNull<Number>) -> usize {
        // SAFETY: numbers are never freed.
        unsafe { number.as_ref() }.value
    }

    #[cfg(not(loom))]
    #[test]
    fn a_line_gives_in_the_order_it_was_given() {
        let mut line = Line::new();
        for round in 1..5 {
            (0..round).for_each(|value| line.push(number(value)));
            (0..round).for_each(|value| assert_eq!(line.pop().map(super::tests::value), Some(value)));
            assert!(line.pop().is_none());
        }
    }

    #[cfg(not(loom))]
    #[test]
    fn a_queue_is_what_a_vec_deque_is() {
        let (mut queue, mut model) = (Queue::new(), std::collections::VecDeque::new());
        let mut seed = 12345_u64;
        for value in 0..10_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            match seed >> 61 {
                0..=2 => {
                    queue.push_back(number(value));
                    model.push_back(value);
                }
                3 => {
                    queue.push_front(number(value));
                    model.push_front(value);
                }
                4 | 5 => assert_eq!(queue.pop_front().map(super::tests::value), model.pop_front()),
                _ => assert_eq!(queue.pop_back().map(super::tests::value), model.pop_back()),
            }
            assert_eq!((queue.len(), queue.is_empty()), (model.len(), model.is_empty()));
        }
    }
}
