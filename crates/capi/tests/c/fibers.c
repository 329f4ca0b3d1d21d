/* fiber.h: every call does what it says, and wrong use is refused with its errno. */
#include "check.h"
#include <fiber.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/wait.h>

static struct fiber_mutex mutex;
static struct fiber_sem semaphore;
static struct fiber_cond condition;
static struct fiber_barrier barrier;
static struct fiber_once once = FIBER_ONCE_INIT;
static fiber_key_t key;
static int count, notified, made, destroyed, begun;

static intptr_t sum(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j, int k, int l, int m, int n,
                    int o, int p)
{
    return a + 2 * b + c + d + e + f + g + h + i + j + k + l + m + n + o + 100 * p;
}

static void below(intptr_t result) { fiber_exit(result); }

static intptr_t exits(intptr_t result)
{
    below(result);
    return -1;
}

static intptr_t locks(int rounds)
{
    for (int round = 0; round < rounds; round++) {
        CHECK(fiber_mutex_lock(&mutex, FIBER_FOREVER) == 0);
        int before = count;
        CHECK(fiber_yield() == 0);
        count = before + 1;
        CHECK(fiber_mutex_unlock(&mutex) == 0);
    }
    FAILS(fiber_mutex_unlock(&mutex), EPERM);
    return fiber_barrier_wait(&barrier);
}

static intptr_t waits_for_news(void)
{
    CHECK(fiber_mutex_lock(&mutex, FIBER_FOREVER) == 0);
    FAILS(fiber_mutex_lock(&mutex, FIBER_FOREVER), EDEADLK);
    while (!notified)
        CHECK(fiber_cond_wait(&condition, &mutex, FIBER_FOREVER) == 0);
    return fiber_mutex_unlock(&mutex);
}

static intptr_t waits_for_ever(void)
{
    __atomic_add_fetch(&begun, 1, __ATOMIC_RELEASE);
    FAILS(fiber_sem_wait(&semaphore, FIBER_FOREVER), ECANCELED);
    FAILS(fiber_yield(), ECANCELED);
    return 77;
}

static intptr_t joins(fiber_t other)
{
    intptr_t result = 0;
    CHECK(fiber_join(other, FIBER_FOREVER, &result) == 0);
    return result;
}

static intptr_t lets_three_join(void)
{
    CHECK(fiber_wait_for_joiners(3) == 0);
    return 33;
}

static intptr_t joins_itself(void)
{
    FAILS(fiber_join(fiber_self(), FIBER_FOREVER, NULL), EDEADLK);
    FAILS(fiber_shutdown(), EDEADLK);
    return 0;
}

static intptr_t returns_at_once(void) { return 1; }

static intptr_t parks(void) { return fiber_park(FIBER_FOREVER); }

static intptr_t overflows(int depth)
{
    volatile char frame[512];
    frame[0] = (char)depth;
    return depth == 0 ? 0 : overflows(depth - 1) + frame[0];
}

static int is_three(void *argument) { return *(volatile int *)argument == 3; }

static size_t polls(size_t budget, void *argument)
{
    *(volatile size_t *)argument += budget > 0;
    return 0;
}

static intptr_t join_of(fiber_t fiber)
{
    intptr_t result = -9;
    CHECK(fiber_join(fiber, FIBER_FOREVER, &result) == 0);
    return result;
}

#define CREATE0(fiber, function) CHECK(fiber_create_array(fiber, NULL, (const void *)(function), 0, NULL) == 0)

static void functions_and_results(void)
{
    fiber_t fiber, joiners[3];
    CHECK(fiber_create(&fiber, NULL, sum, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16) == 0);
    CHECK(join_of(fiber) == 1722);
    FAILS(fiber_join(fiber, FIBER_FOREVER, NULL), ESRCH);
    CHECK(fiber_create(&fiber, NULL, exits, 21) == 0);
    CHECK(join_of(fiber) == 21);
    CREATE0(&fiber, lets_three_join);
    for (int i = 0; i < 3; i++)
        CHECK(fiber_create(&joiners[i], NULL, joins, fiber) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(join_of(joiners[i]) == 33);
    CREATE0(&fiber, joins_itself);
    CHECK(join_of(fiber) == 0);
}

static void objects(void)
{
    fiber_t fibers[3];
    int leaders = 0;
    for (int i = 0; i < 3; i++)
        CHECK(fiber_create(&fibers[i], NULL, locks, 100) == 0);
    for (int i = 0; i < 3; i++)
        leaders += (int)join_of(fibers[i]);
    CHECK(leaders == 1 && count == 300);
    for (int i = 0; i < 3; i++)
        CREATE0(&fibers[i], waits_for_news);
    CHECK(fiber_mutex_lock(&mutex, FIBER_FOREVER) == 0);
    notified = 1;
    CHECK(fiber_cond_broadcast(&condition) == 0);
    CHECK(fiber_mutex_unlock(&mutex) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(join_of(fibers[i]) == 0);
    CHECK(fiber_sem_post(&semaphore) == 0);
    CHECK(fiber_sem_wait(&semaphore, 0) == 0);
    FAILS(fiber_sem_wait(&semaphore, 1000), ETIMEDOUT);
    CHECK(fiber_cond_signal(&condition) == 0);
}

/* Whether the listing names the functions of C on a parked fiber's stack. */
static int tells_the_frames(void)
{
    static char text[1 << 16];
    int pipes[2], before = dup(STDERR_FILENO);
    CHECK(before >= 0 && pipe(pipes) == 0 && dup2(pipes[1], STDERR_FILENO) == STDERR_FILENO);
    int listed = fiber_list_frames();
    CHECK(dup2(before, STDERR_FILENO) == STDERR_FILENO && close(before) == 0 && close(pipes[1]) == 0);
    for (size_t len = 0;;) {
        ssize_t more = read(pipes[0], text + len, sizeof text - 1 - len);
        if (more <= 0)
            break;
        len += (size_t)more;
        text[len] = '\0';
    }
    close(pipes[0]);
    CHECK(listed >= 1);
    if (strstr(text, "does not know them") != NULL) /* under AddressSanitizer */
        return 1;
    return strstr(text, "fiber_sem_wait") != NULL && strstr(text, "waits_for_ever at ") != NULL;
}

/* A fiber that is detached and cancelled before it begins is forgotten. */
static intptr_t cancels_before_it_begins(void)
{
    struct fiber_attr detached = FIBER_ATTR_INIT;
    detached.flags = FIBER_DETACHED;
    detached.worker = 0;
    fiber_t other;
    CHECK(fiber_create_array(&other, &detached, (const void *)parks, 0, NULL) == 0);
    CHECK(fiber_cancel(other) == 0);
    while (fiber_cancel(other) == 0) /* until its worker has come to it */
        CHECK(fiber_sleep(1000000) == 0);
    FAILS(fiber_cancel(other), ESRCH);
    return 5;
}

/* Makes a fiber that waits for ever, and waits until it has begun: one that is cancelled before never does. */
static fiber_t one_that_waits(void)
{
    fiber_t fiber;
    int before = begun;
    CREATE0(&fiber, waits_for_ever);
    while (__atomic_load_n(&begun, __ATOMIC_ACQUIRE) == before)
        CHECK(fiber_sleep(1000000) == 0);
    return fiber;
}

/* One that has ended is forgotten when it is detached; one that had no time for it yet is not. */
static void detaches_one_that_ended(void)
{
    int result;
    for (int64_t pause = 1000000;; pause *= 2) {
        fiber_t fiber;
        CREATE0(&fiber, returns_at_once);
        CHECK(fiber_sleep(pause) == 0);
        CHECK(fiber_detach(fiber) == 0);
        result = fiber_detach(fiber);
        CHECK(result == -1);
        if (errno == ESRCH)
            return;
        CHECK(errno == EALREADY && pause < 60000000000);
    }
}

static void lives(void)
{
    fiber_t fiber = one_that_waits();
    FAILS(fiber_join(fiber, 1000, NULL), ETIMEDOUT);
    CHECK(fiber_high_water(fiber) > 0);
    CHECK(fiber_list() >= 1);
    for (int tries = 0; !tells_the_frames(); tries++) /* until it has come to where it waits */
        CHECK(tries < 10000 && fiber_sleep(1000000) == 0);
    CHECK(fiber_cancel(fiber) == 0);
    CHECK(join_of(fiber) == 77);
    struct fiber_attr first = FIBER_ATTR_INIT;
    first.worker = 0; /* so that what it makes there does not begin before it lets it */
    CHECK(fiber_create_array(&fiber, &first, (const void *)cancels_before_it_begins, 0, NULL) == 0);
    CHECK(join_of(fiber) == 5);
    struct fiber_attr roams = FIBER_ATTR_INIT;
    roams.flags = FIBER_ROAMS;
    CHECK(fiber_create_array(&fiber, &roams, (const void *)parks, 0, NULL) == 0);
    CHECK(fiber_detach(fiber) == 0);
    FAILS(fiber_detach(fiber), EALREADY);
    FAILS(fiber_join(fiber, FIBER_FOREVER, NULL), EINVAL);
    CHECK(fiber_attach(fiber) == 0);
    FAILS(fiber_attach(fiber), EALREADY);
    FAILS(fiber_bind(fiber, 99), EINVAL);
    CHECK(fiber_bind(fiber, 0) == 0);
    CHECK(fiber_unbind(fiber) == 0);
    FAILS(fiber_unbind(fiber), EINVAL);
    CHECK(fiber_unpark(fiber) == 0);
    CHECK(join_of(fiber) == 0);
    detaches_one_that_ended();
    struct fiber_attr deep = FIBER_ATTR_INIT;
    deep.name = "deep";
    CHECK(fiber_create(&fiber, &deep, overflows, 1000000) == 0);
    FAILS(fiber_join(fiber, FIBER_FOREVER, NULL), EOVERFLOW);
}

static void makes(void *argument)
{
    CHECK(fiber_yield() == 0); /* the others come meanwhile, and wait */
    ++*(int *)argument;
}

static void destroys(void *value) { __atomic_add_fetch(&destroyed, *(int *)value, __ATOMIC_RELAXED); }

static intptr_t keeps(int *number)
{
    int did = fiber_once(&once, makes, &made);
    CHECK(did >= 0 && made == 1);
    CHECK(fiber_key_get(key) == NULL);
    CHECK(fiber_key_set(key, number) == 0);
    CHECK(fiber_yield() == 0);
    CHECK(fiber_key_get(key) == number);
    return did;
}

static void once_and_storage(void)
{
    static int numbers[] = {1, 20, 300};
    struct fiber_once wrong = {{77}};
    fiber_t fibers[3];
    intptr_t did = 0;
    CHECK(fiber_key_create(&key, destroys) == 0);
    FAILS(fiber_key_create(NULL, destroys), EFAULT);
    for (int i = 0; i < 3; i++)
        CHECK(fiber_create(&fibers[i], NULL, keeps, &numbers[i]) == 0);
    for (int i = 0; i < 3; i++)
        did += join_of(fibers[i]);
    CHECK(did == 1 && made == 1 && destroyed == 321);
    CHECK(fiber_once(&once, makes, &made) == 0);
    FAILS(fiber_once(&wrong, makes, &made), EINVAL);
    FAILS(fiber_once(&once, NULL, NULL), EFAULT);
    FAILS(fiber_key_set(key, &made), EPERM);
    FAILS(fiber_key_set(key + 1, &made), EINVAL);
    errno = 0;
    CHECK(fiber_key_get(0) == NULL && errno == EINVAL);
}

static void words_between_processes(void)
{
    uint64_t *words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(words != MAP_FAILED);
    words[1] = 3;
    pid_t child = fork();
    if (child == 0) { /* counts with plain stores: no call of the library is needed on this side */
        for (int i = 0; i < 3; i++) {
            usleep(2000);
            __atomic_add_fetch(&words[0], 1, __ATOMIC_RELEASE);
        }
        _exit(0);
    }
    CHECK(fiber_wait_words(&words[0], FIBER_EQUAL, &words[1], FIBER_FOREVER) == 0);
    FAILS(fiber_wait_words(&words[0], FIBER_LESS, &words[1], 1000), ETIMEDOUT);
    FAILS(fiber_wait_words(&words[0], 9, &words[1], 1000), EINVAL);
    CHECK(waitpid(child, NULL, 0) == child);
    CHECK(fiber_word_lock(&words[2], FIBER_FOREVER) == 0);
    FAILS(fiber_word_lock(&words[2], 1000), ETIMEDOUT);
    CHECK(fiber_word_unlock(&words[2]) == 0);
    FAILS(fiber_word_unlock(&words[2]), EPERM);
    int three = 3;
    CHECK(fiber_wait_until(is_three, &three, FIBER_FOREVER) == 0);
}

static void wrong_use(void)
{
    struct fiber_mutex never = {{0}};
    intptr_t seventeen[17] = {0};
    fiber_t fiber;
    FAILS(fiber_mutex_lock(&never, FIBER_FOREVER), EINVAL);
    FAILS(fiber_mutex_lock(NULL, FIBER_FOREVER), EFAULT);
    FAILS(fiber_sem_post((struct fiber_sem *)&mutex), EINVAL);
    FAILS(fiber_create_array(&fiber, NULL, NULL, 0, NULL), EFAULT);
    FAILS(fiber_create_array(&fiber, NULL, (const void *)sum, 17, seventeen), EINVAL);
    FAILS(fiber_cancel(123456), ESRCH);
    FAILS(fiber_exit(1), EPERM);
    FAILS(fiber_park(FIBER_FOREVER), EPERM);
    FAILS(fiber_wait_for_joiners(1), EPERM);
    CHECK(fiber_self() == 0);
}

/* What this process tells of its fibers. */
static void tells_of_itself(const char *name)
{
    static char text[1 << 16];
    struct sockaddr_un there = {.sun_family = AF_UNIX};
    const char *directory = getenv("XDG_RUNTIME_DIR");
    fiber_t fiber = one_that_waits();
    if (directory != NULL && *directory != '\0')
        snprintf(there.sun_path, sizeof there.sun_path, "%.60s/weft/%.30s.sock", directory, name);
    else
        snprintf(there.sun_path, sizeof there.sun_path, "/tmp/weft-%d/%.30s.sock", (int)getuid(), name);
    int tries = 0;
    do { /* until it has come to where it waits */
        CHECK(tries++ < 10000 && fiber_sleep(1000000) == 0);
        size_t len = 0;
        ssize_t more;
        int s = socket(AF_UNIX, SOCK_STREAM, 0);
        CHECK(connect(s, (struct sockaddr *)&there, sizeof there) == 0);
        while ((more = read(s, text + len, sizeof text - 1 - len)) > 0)
            len += (size_t)more;
        text[len] = '\0';
        close(s);
    } while (strstr(text, "\"awaited\":\"a semaphore\"") == NULL);
    CHECK(fiber_list_on_signal(SIGUSR1) == 0 && raise(SIGUSR1) == 0);
    FAILS(fiber_list_on_signal(12345), EINVAL);
    CHECK(fiber_cancel(fiber) == 0);
    CHECK(join_of(fiber) == 77);
}

static int ended_late;

static intptr_t ends_late(void)
{
    ended_late++;
    return 0;
}

/* While a thread waits for the attached fibers, these make others, and nobody starts anew. */
static intptr_t goes_on_in_the_shutdown(void)
{
    fiber_t fiber;
    while (fiber_set_poll(polls, NULL) == -1 && errno == EALREADY) /* the thread has not come to it yet */
        CHECK(fiber_sleep(1000000) == 0);
    FAILS(fiber_set_poll(polls, NULL), ESHUTDOWN);
    FAILS(fiber_init(NULL), EBUSY);
    CREATE0(&fiber, ends_late);
    return join_of(fiber);
}

int main(void)
{
    static char name[32];
    struct fiber_config config = FIBER_CONFIG_INIT;
    static size_t calls;
    fiber_t fiber;

    FAILS(fiber_shutdown(), ESHUTDOWN);
    FAILS(fiber_create_array(&fiber, NULL, (const void *)parks, 0, NULL), ESHUTDOWN);
    config.workers = 2;
    config.stat_name = "no/name";
    FAILS(fiber_init(&config), EINVAL);
    snprintf(name, sizeof name, "fibers-c-%d", (int)getpid());
    config.stat_name = name;
    CHECK(fiber_init(&config) == 0);
    FAILS(fiber_init(&config), EBUSY);
    CHECK(fiber_mutex_init(&mutex) == 0);
    CHECK(fiber_sem_init(&semaphore, 0) == 0);
    CHECK(fiber_cond_init(&condition) == 0);
    CHECK(fiber_barrier_init(&barrier, 3) == 0);
    CHECK(fiber_set_poll(polls, &calls) == 0);
    FAILS(fiber_set_poll(polls, &calls), EALREADY);
    functions_and_results();
    objects();
    once_and_storage();
    lives();
    tells_of_itself(name);
    words_between_processes();
    wrong_use();
    CREATE0(&fiber, goes_on_in_the_shutdown);
    CHECK(fiber_shutdown() == 0);
    CHECK(ended_late == 1);
    CHECK(calls > 0);
    FAILS(fiber_join(fiber, FIBER_FOREVER, NULL), ESRCH);
    FAILS(fiber_create_array(&fiber, NULL, (const void *)parks, 0, NULL), ESHUTDOWN);
    puts("fibers: ok");
    return 0;
}
