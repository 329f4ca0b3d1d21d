//! The calls on the stacks of parked fibers.

use std::hint::black_box;

use super::*;

/// The line of the innermost call.
static LINE: AtomicUsize = AtomicUsize::new(0);

#[inline(never)]
fn waits_inside(semaphore: &Semaphore) -> u32 {
    LINE.store(line!() as usize + 1, Ordering::Relaxed);
    semaphore.wait();
    black_box(1)
}

#[inline(never)]
fn calls_one_that_waits(semaphore: &Semaphore) -> u32 {
    black_box(waits_inside(semaphore)) + 1
}

#[inline(never)]
fn goes_down(depth: u32, semaphore: &Semaphore) -> u32 {
    match depth {
        0 => black_box(calls_one_that_waits(semaphore)) + 1,
        depth => black_box(goes_down(depth - 1, semaphore)) + 1,
    }
}

/// A fiber that has parked some functions deep, until this is dropped.
struct Parked {
    fiber: Option<JoinHandle<u32>>,
    semaphore: Arc<Semaphore>,
}

impl Parked {
    fn new(handle: &Handle, options: Spawn<'_>) -> Self {
        let semaphore = Arc::new(Semaphore::new(0));
        let theirs = semaphore.clone();
        let fiber = options.spawn_on(handle, move || goes_down(2, &theirs)).expect("there is room");
        until_it_waits(handle, fiber.fiber());
        Self { fiber: Some(fiber), semaphore }
    }

    fn fiber(&self) -> &Fiber {
        self.fiber.as_ref().expect("it has not ended").fiber()
    }

    /// Lets it go on; what it returns.
    fn end(mut self) -> u32 {
        self.semaphore.post();
        self.fiber.take().expect("it ends once").join().expect("it ends well")
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        self.semaphore.post();
    }
}

fn until_it_waits(handle: &Handle, fiber: &Fiber) {
    let waits = |listed: &Listed| listed.id == fiber.id() && matches!(listed.state, State::Waiting(_));
    while !handle.list().iter().any(waits) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn frames_of(listing: &[Listed], fiber: &Fiber) -> Result<Vec<Frame>, NoFrames> {
    listing.iter().find(|listed| listed.id == fiber.id()).expect("the fiber is listed").frames.clone()
}

/// The listing, taken again while a worker that computes nothing gets no processor to come.
#[cfg(not(feature = "sanitizer"))]
fn listing(handle: &Handle) -> Vec<Listed> {
    loop {
        let listing = handle.list_with_frames();
        if !listing.iter().any(|listed| matches!(listed.frames, Err(NoFrames::Busy { .. }))) {
            return listing;
        }
    }
}

/// The function, without its path: tables of lines alone have none.
#[cfg(not(feature = "sanitizer"))]
fn name(frame: &Frame) -> &str {
    frame.function.as_deref().and_then(|function| function.rsplit("::").next()).unwrap_or_default()
}

/// The names of this file's functions, and that the two ends are what they should be.
#[cfg(not(feature = "sanitizer"))]
fn assert_is_parked(frames: &[Frame]) {
    let is_of_this = |frame: &&Frame| frame.place.as_ref().is_some_and(|(file, _)| file.ends_with(file!()));
    let calls: Vec<&str> =
        frames.iter().filter(is_of_this).map(name).take_while(|name| !name.contains("closure")).collect();
    let parked = ["waits_inside", "calls_one_that_waits", "goes_down", "goes_down", "goes_down"];
    assert_eq!(calls, parked, "{frames:#?}");
    assert_eq!(frames.first().map(name), Some("wait"), "{frames:#?}");
    assert_eq!(frames.last().map(name), Some("enter"), "{frames:#?}");
}

#[cfg(not(feature = "sanitizer"))]
#[test]
fn a_parked_fiber_is_listed_with_its_calls_from_the_innermost_to_the_shell() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let fiber = Parked::new(&runtime.handle(), Spawn::new().name("deep"));
    let listing = listing(&runtime.handle());
    assert_is_parked(&frames_of(&listing, fiber.fiber()).unwrap());
    let innermost = &listing[0].frames.as_ref().unwrap()[1];
    let (file, line) = innermost.place.clone().unwrap();
    assert!(file.ends_with("frames.rs") && line as usize == LINE.load(Ordering::Relaxed), "{file}:{line}");
    let shown = listing[0].to_string();
    assert!(shown.contains("waits_inside at ") && shown.contains(" more"), "{shown}");
    // Nobody has noticed.
    assert_eq!(fiber.end(), 5);
}

#[cfg(not(feature = "sanitizer"))]
#[test]
fn who_lists_is_not_looked_at_and_others_are_where_they_stand() {
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle();
    let fiber = Parked::new(&handle, Spawn::new());
    let parked = fiber.fiber().clone();
    runtime
        .run(move || {
            let over = Arc::new(AtomicUsize::new(0));
            let seen = over.clone();
            let yields = spawn(move || {
                while seen.load(Ordering::Relaxed) == 0 {
                    yield_now();
                }
            });
            let (yields, waits) = (yields.unwrap(), spawn(|| park().unwrap()).unwrap());
            (0..20).for_each(|_| yield_now());
            let (me, fresh) = (Fiber::current().unwrap(), spawn(|| ()).unwrap());
            waits.fiber().unpark();
            let listing = handle.list_with_frames();
            assert_is_parked(&frames_of(&listing, &parked).unwrap());
            let ready = frames_of(&listing, yields.fiber()).unwrap();
            assert!(ready.iter().any(|frame| name(frame) == "yield_now"), "{ready:#?}");
            assert_eq!(ready.last().map(name), Some("enter"));
            assert_eq!(frames_of(&listing, &me), Err(NoFrames::Running));
            assert_eq!(frames_of(&listing, waits.fiber()), Err(NoFrames::Running));
            assert_eq!(frames_of(&listing, fresh.fiber()), Err(NoFrames::NotStarted));
            assert!(handle.list().iter().all(|listed| listed.frames == Err(NoFrames::NotAsked)));
            over.store(1, Ordering::Relaxed);
        })
        .unwrap();
    assert_eq!(fiber.end(), 5);
}

#[cfg(not(feature = "sanitizer"))]
#[test]
fn a_joiner_that_runs_the_fiber_which_lists_is_not_looked_at() {
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle();
    let states = runtime.run(move || {
        let me = Fiber::current().unwrap();
        let lists = move || {
            let listing = handle.list_with_frames();
            let state = listing.iter().find(|listed| listed.id == me.id()).unwrap().state;
            (state, frames_of(&listing, &me))
        };
        yield_now();
        // Run by the joiner itself, which has a stack to be found, left when it last yielded.
        spawn(lists).unwrap().join().unwrap()
    });
    assert_eq!(states.unwrap(), (State::Waiting(Why::Join), Err(NoFrames::Running)));
}

#[cfg(not(feature = "sanitizer"))]
#[test]
fn a_worker_that_is_busy_in_a_fiber_hides_what_it_may_run_and_no_more() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let handle = runtime.handle();
    let (here, there) = (Spawn::new().bind(0), Spawn::new().bind(1));
    let (here, there) = (Parked::new(&handle, here), Parked::new(&handle, there));
    // SAFETY: it keeps nothing of its thread.
    let roams = Parked::new(&handle, unsafe { Spawn::new().roaming() });
    let frames = |fiber: &Parked| frames_of(&listing(&handle), fiber.fiber());
    [&here, &there, &roams].into_iter().for_each(|fiber| assert_is_parked(&frames(fiber).unwrap()));

    let (is_busy, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (busy, over) = (is_busy.clone(), is_over.clone());
    let spins = Spawn::new().bind(1).spawn_on(&handle, move || {
        busy.store(1, Ordering::SeqCst);
        while over.load(Ordering::SeqCst) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    while is_busy.load(Ordering::SeqCst) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let listing = loop {
        let listing = handle.list_with_frames();
        if frames_of(&listing, here.fiber()).is_ok() {
            break listing;
        }
    };
    is_over.store(1, Ordering::SeqCst);
    spins.unwrap().join().unwrap();
    assert_is_parked(&frames_of(&listing, here.fiber()).unwrap());
    for hidden in [&there, &roams] {
        assert_eq!(frames_of(&listing, hidden.fiber()), Err(NoFrames::Busy { worker: 1 }));
    }
    let shown = listing.iter().find(|listed| listed.id == there.fiber().id()).unwrap().to_string();
    assert!(shown.contains("no frames: worker 1 was busy"), "{shown}");
    [here, there, roams].into_iter().for_each(|fiber| assert_eq!(fiber.end(), 5));
}

#[cfg(not(feature = "sanitizer"))]
#[test]
fn a_deadlock_and_the_json_have_the_frames_of_the_first_thousand() {
    let runtime = Runtime::builder().on_deadlock(|_| ()).build().unwrap();
    let handle = runtime.handle();
    let fiber = Parked::new(&handle, Spawn::new());
    let is_busy = |fiber: &Listed| matches!(fiber.frames, Err(NoFrames::Busy { .. }));
    let deadlock = loop {
        let deadlock = handle.deadlock().unwrap();
        if !is_busy(&deadlock.fibers()[0]) {
            break deadlock;
        }
    };
    assert_is_parked(deadlock.fibers()[0].frames.as_ref().unwrap());
    let json = loop {
        let json = handle.to_json_with_frames();
        if !json.contains("was busy") {
            break json;
        }
    };
    assert!(json.contains("\"frames\":[{\"address\":\"0x") && json.contains("waits_inside"), "{json}");
    assert!(!handle.to_json().contains("frames"));
    let gate = Arc::new(Semaphore::new(0));
    for _ in 0..1000 {
        let gate = gate.clone();
        drop(handle.spawn(move || gate.wait()).unwrap());
    }
    while !handle.list().iter().all(|listed| matches!(listed.state, State::Waiting(_))) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let listing = listing(&handle);
    (0..1000).for_each(|_| gate.post());
    let beyond: Vec<_> = listing.iter().filter(|listed| listed.frames.is_err()).collect();
    assert_eq!((listing.len(), beyond.len()), (1001, 1));
    assert_eq!(beyond[0].frames, Err(NoFrames::Beyond));
    assert_eq!(fiber.end(), 5);
}

#[cfg(not(feature = "sanitizer"))]
#[test]
fn a_fiber_with_the_smallest_stack_lists() {
    let runtime = Runtime::builder().stack_size(1).build().unwrap();
    let handle = runtime.handle();
    let fiber = Parked::new(&handle, Spawn::new());
    let parked = fiber.fiber().clone();
    let lists = move || frames_of(&handle.list_with_frames(), &parked);
    assert_is_parked(&runtime.run(lists).unwrap().unwrap());
    assert_eq!(fiber.end(), 5);
}

#[cfg(feature = "sanitizer")]
#[test]
fn a_switch_that_does_not_know_the_frames_says_so() {
    let runtime = Runtime::new().unwrap();
    let fiber = Parked::new(&runtime.handle(), Spawn::new());
    assert_eq!(frames_of(&runtime.handle().list_with_frames(), fiber.fiber()), Err(NoFrames::Unknown));
    assert_eq!(fiber.end(), 5);
}

/// Fibers that come, wait for each other, roam and end, while two of them, two threads and the shutdown look at them.
#[test]
fn anybody_lists_at_any_time_and_nobody_waits_for_ever() {
    for _ in 0..5 {
        let runtime = Runtime::builder().workers(3).build().unwrap();
        let busy = move |seed: u32| {
            let gate = Arc::new(Semaphore::new(0));
            for round in 0..100 {
                let (theirs, mine) = (gate.clone(), gate.clone());
                // SAFETY: it keeps nothing of its thread.
                let roams = unsafe { Spawn::new().roaming() }.spawn(move || theirs.wait()).unwrap();
                let posts = spawn(move || goes_down_and_posts((seed + round) % 7, &mine)).unwrap();
                posts.join().unwrap();
                roams.join().unwrap();
            }
        };
        let fibers: Vec<_> = (0..6).map(|seed| runtime.spawn(move || busy(seed)).unwrap()).collect();
        let looks = |handle: Handle, looks: usize| {
            move || (0..looks).map(|_| handle.list_with_frames().len()).sum::<usize>()
        };
        let listers: Vec<_> = (0..2)
            .map(|worker| {
                Spawn::new().bind(worker).spawn_on(&runtime.handle(), looks(runtime.handle(), 20)).unwrap()
            })
            .collect();
        let threads: Vec<_> = (0..2).map(|_| std::thread::spawn(looks(runtime.handle(), 60))).collect();
        let seen: usize = listers.into_iter().map(|lister| lister.join().unwrap()).sum();
        assert!(seen >= 40, "a fiber that lists is in its list");
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        let last = runtime.handle();
        runtime.shut_down();
        assert_eq!(last.list_with_frames().len(), 0);
        assert!(threads.into_iter().all(|thread| thread.join().is_ok()));
    }
}

fn goes_down_and_posts(depth: u32, semaphore: &Semaphore) -> u32 {
    yield_now();
    match depth {
        0 => {
            semaphore.post();
            1
        }
        depth => black_box(goes_down_and_posts(depth - 1, semaphore)) + 1,
    }
}
