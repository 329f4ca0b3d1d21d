/*
 * fiber.h - user-level threads with opportunistic polling, after the SCALE Threads of the SCALE paper (section 2).
 *
 * A fiber is a call of a C function that goes on beside others. Workers, which are threads of the operating system, run
 * the fibers; all switches are voluntary. A fiber that waits says what for: an object below, which is handed over in O(1),
 * or a condition, which a worker tests whenever it has the chance.
 *
 * Unless its comment says otherwise a call returns 0 or more on success, and -1 with errno set on failure; cdp_error() of
 * cdp.h then tells in a sentence what happened and what to do next. Calls may be made from fibers and, unless said
 * otherwise, from any thread. Every call may fail with EFAULT (a pointer that must not be NULL is), ENOTSUP (the process
 * was forked after its first call), EIO (a defect in this library); one that takes a fiber with ESRCH (no such fiber, or
 * it has been joined); one that waits with ECANCELED (the calling fiber was cancelled: free what it holds and return).
 *
 * timeout_ns: nanoseconds to wait at most, then ETIMEDOUT; FIBER_FOREVER, or any number below 0, is for ever.
 * The calls of cdp.h that wait do so on their fiber: the worker runs others, and moves packets when there are none. They fail
 * with ECANCELED as well; cdp_close() then goes on in the background.
 *
 * errno belongs to the worker: read it before the next call that may switch.
 * Link with the library of cdp.h: pkg-config --cflags --libs cdp
 */
#ifndef FIBER_H
#define FIBER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FIBER_FOREVER (-1)
/* Arguments of a fiber's function at most. */
#define FIBER_ARGS_MAX 16

/* A fiber's number; 0 is none. */
typedef uint64_t fiber_t;

/* ---- The runtime ------------------------------------------------------------------------------------------------ */

struct fiber_config {
    uint32_t size;      /* sizeof(struct fiber_config) */
    uint32_t workers;   /* threads that run fibers; 0 is one */
    size_t stack_size;  /* bytes of a stack, rounded up to pages; 0: 56 KiB. Only what is touched takes memory */
    size_t fiber_limit; /* fibers at once; 0: 2^20 */
    const char *stat_name; /* name by which `weft stat --fibers` shows them to this user; NULL: not */
};
#define FIBER_CONFIG_INIT {sizeof(struct fiber_config), 0, 0, 0, NULL}

/*
 * Starts the workers; NULL is the default.
 * errno: EBUSY started already, or the shutdown goes on, EINVAL a value cannot be, EAGAIN the system refuses a thread,
 * EADDRINUSE another process has stat_name.
 */
int fiber_init(const struct fiber_config *config);

/*
 * Waits for the attached fibers, which may make others meanwhile, cancels the detached ones and waits 2 s at most for them to
 * end, and ends the workers. Not from a fiber.
 * errno: ESHUTDOWN not started, or another thread shuts down, EDEADLK called from a fiber.
 */
int fiber_shutdown(void);

/*
 * Has workers call hook(budget, argument) from now on when they have time: often when idle, now and then under load. It
 * makes progress of at most budget, never waits, and returns how much it made. errno: EALREADY there is one, ESHUTDOWN.
 */
int fiber_set_poll(size_t (*hook)(size_t budget, void *argument), void *argument);

/* Prints the fibers with names, states and stacks to the standard error; returns how many there are. errno: ESHUTDOWN */
int fiber_list(void);

/*
 * The same with the innermost calls on the stacks of fibers that wait or are ready: function, file and line as far as the program
 * was built with them (-g). The workers stand still meanwhile; one that is busy in a fiber is waited for, a second at most.
 */
int fiber_list_frames(void);

/* Has this signal, such as SIGUSR1, print them with their innermost calls: within 200 ms, or when fibers next switch. errno: EINVAL no such signal */
int fiber_list_on_signal(int signal);

/* ---- Fibers ----------------------------------------------------------------------------------------------------- */

#define FIBER_DETACHED 1 /* its result is nobody's, and fiber_shutdown does not wait for it */
/* Any worker may run it at any time: it may wake on another thread than it went to sleep on, so it keeps nothing of its
 * thread across a call that waits: no errno, no thread-local variable, no address of one. */
#define FIBER_ROAMS 2

struct fiber_attr {
    uint32_t size;     /* sizeof(struct fiber_attr) */
    uint32_t flags;    /* FIBER_DETACHED and FIBER_ROAMS, or 0 */
    const char *name;  /* for listings and reports, the first 32 bytes; NULL is none */
    size_t stack_size; /* 0: as the runtime's */
    int worker;        /* the worker it is bound to, from 0; -1: none */
    int reserved;      /* 0 */
};
#define FIBER_ATTR_INIT {sizeof(struct fiber_attr), 0, NULL, 0, -1, 0}

/*
 * Makes a fiber that calls function with count arguments, each an integer or a pointer, and whose result is what that
 * returns: function is an existing one such as intptr_t f(intptr_t, void *). attr and fiber may be NULL.
 * Any worker may take the fiber until it starts; then it stays with that thread, unless it roams.
 * errno: ESHUTDOWN not started, EAGAIN the limit of fibers, ENOMEM no memory for its stack, EINVAL more than 16 arguments,
 * or no such worker.
 */
int fiber_create_array(fiber_t *fiber, const struct fiber_attr *attr, const void *function, size_t count,
                       const intptr_t *args);

/*
 * The same with the arguments as they are, one to sixteen: fiber_create(&fiber, NULL, function, 7, text).
 * A function without arguments: fiber_create_array(&fiber, NULL, function, 0, NULL).
 */
#define fiber_create(fiber, attr, function, ...)                                                               \
    fiber_create_array(fiber, attr, (const void *)(function), FIBER_COUNT(__VA_ARGS__),                        \
                       (const intptr_t[]){FIBER_EACH(FIBER_COUNT(__VA_ARGS__), __VA_ARGS__)})

/*
 * Waits for a fiber's end and its result; result may be NULL. Any number may join at the same time. A number is good until
 * a join of the ended fiber has returned.
 * errno: EINVAL it is detached, EDEADLK a fiber joins itself, ENODATA it was cancelled, EOVERFLOW it overflowed its stack.
 */
int fiber_join(fiber_t fiber, int64_t timeout_ns, intptr_t *result);

/* Ends the calling fiber with this result, from anywhere below its function. Returns only to fail: EPERM no fiber. */
int fiber_exit(intptr_t result);

/* Lets other fibers that are ready run first. */
int fiber_yield(void);

/* The calling fiber; 0 on a thread that runs none. */
fiber_t fiber_self(void);

/* Makes a fiber's result nobody's, or joinable again. Detaching one that has ended forgets it.
 * errno: EALREADY it is so, EBUSY it is being joined, ESRCH there is none, or (to attach) it ended */
int fiber_detach(fiber_t fiber);
int fiber_attach(fiber_t fiber);

/* Binds a fiber to a worker, or lets it go. errno: EINVAL no such worker or not bound, EBUSY it has started elsewhere */
int fiber_bind(fiber_t fiber, int worker);
int fiber_unbind(fiber_t fiber);

/* Has all waits of a fiber end with ECANCELED from now on; one that has not started never does. */
int fiber_cancel(fiber_t fiber);

/* Sleeps until fiber_unpark, which may have come before. errno: EPERM no fiber calls, ETIMEDOUT */
int fiber_park(int64_t timeout_ns);
int fiber_unpark(fiber_t fiber);

/* Sleeps so many nanoseconds at least. */
int fiber_sleep(uint64_t ns);

/* Waits until so many fibers join the calling one; when it then ends they all go on. errno: EPERM no fiber calls */
int fiber_wait_for_joiners(size_t joiners);

/* The most bytes of its stack that a fiber, or one before it on the same stack, has used. */
ssize_t fiber_high_water(fiber_t fiber);

/* ---- Objects, handed over in the order of waiting --------------------------------------------------------------- */

struct fiber_mutex { uint64_t opaque[8]; };
struct fiber_sem { uint64_t opaque[8]; };
struct fiber_cond { uint64_t opaque[8]; };
struct fiber_barrier { uint64_t opaque[8]; };

/*
 * Each is made by its _init, stays where it is, and needs no end; its memory may be used otherwise when every call on it has returned,
 * that of who wakes another as well. errno of the others: EINVAL it was not made.
 */
int fiber_mutex_init(struct fiber_mutex *mutex);
/* errno: EDEADLK the caller holds it already, ETIMEDOUT (at once with 0) */
int fiber_mutex_lock(struct fiber_mutex *mutex, int64_t timeout_ns);
/* errno: EPERM the caller does not hold it */
int fiber_mutex_unlock(struct fiber_mutex *mutex);

int fiber_sem_init(struct fiber_sem *semaphore, size_t permits);
int fiber_sem_wait(struct fiber_sem *semaphore, int64_t timeout_ns);
int fiber_sem_post(struct fiber_sem *semaphore);

int fiber_cond_init(struct fiber_cond *condition);
/* Unlocks the mutex, waits, locks it again (also at ETIMEDOUT, not at ECANCELED). errno: EPERM the caller does not hold it */
int fiber_cond_wait(struct fiber_cond *condition, struct fiber_mutex *mutex, int64_t timeout_ns);
int fiber_cond_signal(struct fiber_cond *condition);
int fiber_cond_broadcast(struct fiber_cond *condition);

int fiber_barrier_init(struct fiber_barrier *barrier, size_t size);
/* 1 for the one that comes last, 0 for the others. */
int fiber_barrier_wait(struct fiber_barrier *barrier);

/*
 * Calls function(argument) unless that has been done with this object; returns when it has returned, 1 if this call did it
 * and 0 if another one. The object begins as FIBER_ONCE_INIT; function may wait, but neither ends its fiber nor comes here again
 * with the same object. errno: EINVAL the object began as something else
 */
struct fiber_once { uint64_t opaque[8]; };
#define FIBER_ONCE_INIT {{0}}
int fiber_once(struct fiber_once *once, void (*function)(void *argument), void *argument);

/* ---- Storage of its own for each fiber -------------------------------------------------------------------------- */

#define FIBER_KEYS_MAX 1024

typedef uint32_t fiber_key_t;

/*
 * Makes a key, under which each fiber keeps a pointer, NULL at first. When a fiber ends, also by cancellation,
 * destructor(value) is called on it for each value that is not NULL; destructor may be NULL. Keys last as long as the process.
 * errno: EAGAIN the limit of keys
 */
int fiber_key_create(fiber_key_t *key, void (*destructor)(void *value));

/* errno of both: EINVAL no such key, EPERM no fiber calls; fiber_key_get() then returns NULL. */
int fiber_key_set(fiber_key_t key, void *value);
void *fiber_key_get(fiber_key_t key);

/* ---- Posted conditions, tested by workers ----------------------------------------------------------------------- */

#define FIBER_EQUAL 0
#define FIBER_NOT_EQUAL 1
#define FIBER_LESS 2
#define FIBER_NOT_LESS 3

/*
 * Waits until *left and *right compare so. The words may be in memory shared between processes.
 * errno: EINVAL no such comparison, ETIMEDOUT
 */
int fiber_wait_words(const uint64_t *left, int comparison, const uint64_t *right, int64_t timeout_ns);

/* Waits until test(argument) is not 0. test is short, and makes no call that waits. errno: ETIMEDOUT */
int fiber_wait_until(int (*test)(void *argument), void *argument, int64_t timeout_ns);

/* A lock in a word that processes may share; 0 is free. It is polled. errno of unlock: EPERM it is free */
int fiber_word_lock(uint64_t *lock, int64_t timeout_ns);
int fiber_word_unlock(uint64_t *lock);

/* ---- What fiber_create is made of ------------------------------------------------------------------------------- */

#define FIBER_COUNT(...) FIBER_17TH(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define FIBER_17TH(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, count, ...) count
#define FIBER_EACH(count, ...) FIBER_EACH_OF(count, __VA_ARGS__)
#define FIBER_EACH_OF(count, ...) FIBER_EACH_##count(__VA_ARGS__)
#define FIBER_EACH_1(a) (intptr_t)(a)
#define FIBER_EACH_2(a, ...) (intptr_t)(a), FIBER_EACH_1(__VA_ARGS__)
#define FIBER_EACH_3(a, ...) (intptr_t)(a), FIBER_EACH_2(__VA_ARGS__)
#define FIBER_EACH_4(a, ...) (intptr_t)(a), FIBER_EACH_3(__VA_ARGS__)
#define FIBER_EACH_5(a, ...) (intptr_t)(a), FIBER_EACH_4(__VA_ARGS__)
#define FIBER_EACH_6(a, ...) (intptr_t)(a), FIBER_EACH_5(__VA_ARGS__)
#define FIBER_EACH_7(a, ...) (intptr_t)(a), FIBER_EACH_6(__VA_ARGS__)
#define FIBER_EACH_8(a, ...) (intptr_t)(a), FIBER_EACH_7(__VA_ARGS__)
#define FIBER_EACH_9(a, ...) (intptr_t)(a), FIBER_EACH_8(__VA_ARGS__)
#define FIBER_EACH_10(a, ...) (intptr_t)(a), FIBER_EACH_9(__VA_ARGS__)
#define FIBER_EACH_11(a, ...) (intptr_t)(a), FIBER_EACH_10(__VA_ARGS__)
#define FIBER_EACH_12(a, ...) (intptr_t)(a), FIBER_EACH_11(__VA_ARGS__)
#define FIBER_EACH_13(a, ...) (intptr_t)(a), FIBER_EACH_12(__VA_ARGS__)
#define FIBER_EACH_14(a, ...) (intptr_t)(a), FIBER_EACH_13(__VA_ARGS__)
#define FIBER_EACH_15(a, ...) (intptr_t)(a), FIBER_EACH_14(__VA_ARGS__)
#define FIBER_EACH_16(a, ...) (intptr_t)(a), FIBER_EACH_15(__VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
