/* Every call used wrongly: each is refused with its errno, and nothing crashes. */
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

static void bad_descriptors(void)
{
    struct cdp_addr addr = {0};
    struct cdp_close_result result;
    struct cdp_stats stats;
    int bad[] = {-1, 0, 7777, 1 << 30}, value = 0;
    size_t len = sizeof value;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int s = bad[i];
        FAILS(cdp_bind(s, &addr), EBADF);
        FAILS(cdp_listen(s, 1), EBADF);
        FAILS(cdp_connect(s, &addr), EBADF);
        FAILS(cdp_accept(s, &addr), EBADF);
        FAILS(cdp_send(s, "x", 1, 0), EBADF);
        FAILS(cdp_recv(s, &value, sizeof value, 0), EBADF);
        FAILS(cdp_flush(s), EBADF);
        FAILS(cdp_close(s), EBADF);
        FAILS(cdp_close_result(s, 0, &result), EBADF);
        FAILS(cdp_shutdown(s), EBADF);
        FAILS(cdp_abort(s), EBADF);
        FAILS(cdp_getsockname(s, &addr), EBADF);
        FAILS(cdp_getpeername(s, &addr), EBADF);
        FAILS(cdp_setsockopt(s, CDP_NONBLOCK, &value, sizeof value), EBADF);
        FAILS(cdp_getsockopt(s, CDP_NONBLOCK, &value, &len), EBADF);
        FAILS(cdp_poll_fd(s, CDP_READABLE), EBADF);
        FAILS(cdp_stats(s, &stats, sizeof stats), EBADF);
    }
    FAILS(cdp_node_address(7777, &addr), EBADF);
    FAILS(cdp_socket_on(7777, CDP_STREAM), EBADF);
}

static void bad_pointers(int s)
{
    struct cdp_addr addr = {0};
    size_t len = 4;

    FAILS(cdp_bind(s, NULL), EFAULT);
    FAILS(cdp_connect(s, NULL), EFAULT);
    FAILS(cdp_send(s, NULL, 1, 0), EFAULT);
    FAILS(cdp_recv(s, NULL, 1, 0), EFAULT);
    FAILS(cdp_close_result(s, 0, NULL), EFAULT);
    FAILS(cdp_getsockname(s, NULL), EFAULT);
    FAILS(cdp_setsockopt(s, CDP_NONBLOCK, NULL, 4), EFAULT);
    FAILS(cdp_getsockopt(s, CDP_NONBLOCK, NULL, &len), EFAULT);
    FAILS(cdp_getsockopt(s, CDP_NONBLOCK, &len, NULL), EFAULT);
    FAILS(cdp_resolve(NULL, 0, &addr), EFAULT);
    FAILS(cdp_resolve("127.0.0.1:7", 0, NULL), EFAULT);
    FAILS(cdp_addr_text(NULL, NULL, 0), EFAULT);
    FAILS(cdp_node_peer(CDP_NODE_DEFAULT, NULL), EFAULT);
    FAILS(cdp_node_address(CDP_NODE_DEFAULT, NULL), EFAULT);
    FAILS(cdp_node_stats(CDP_NODE_DEFAULT, NULL, 8), EFAULT);
}

static void bad_arguments(int s)
{
    struct cdp_node_config config = CDP_NODE_CONFIG_INIT;
    struct cdp_addr addr = {0};
    char short_option[2] = {0};
    int value = 2;
    size_t len = 2;

    FAILS(cdp_socket(0), EINVAL);
    FAILS(cdp_socket(3), EINVAL);
    FAILS(cdp_resolve("nothing here", 0, &addr), EINVAL);
    FAILS(cdp_connect(s, &addr), EINVAL); /* no port */
    addr.port = 7;
    FAILS(cdp_connect(s, &addr), EINVAL); /* neither node nor underlay */
    addr.underlay = 5;
    FAILS(cdp_connect(s, &addr), EINVAL);
    addr.underlay = CDP_UNDERLAY_NONE;
    addr.node = CDP_NODE_LAST + 1;
    FAILS(cdp_bind(s, &addr), EINVAL);
    addr.node = 5;
    FAILS(cdp_bind(s, &addr), EADDRNOTAVAIL);
    FAILS(cdp_connect(s, &addr), EHOSTUNREACH); /* a node that nobody told us of */
    FAILS(cdp_setsockopt(s, 99, &value, sizeof value), ENOPROTOOPT);
    FAILS(cdp_setsockopt(s, CDP_SERVICE, &value, sizeof value), ENOPROTOOPT);
    FAILS(cdp_setsockopt(s, CDP_NONBLOCK, &value, sizeof value), EINVAL);
    FAILS(cdp_setsockopt(s, CDP_NONBLOCK, short_option, sizeof short_option), EINVAL);
    FAILS(cdp_getsockopt(s, 99, &value, &len), ENOPROTOOPT);
    FAILS(cdp_getsockopt(s, CDP_NONBLOCK, &value, &len), EINVAL);
    FAILS(cdp_poll_fd(s, 0), EINVAL);
    FAILS(cdp_poll_fd(s, CDP_READABLE), EINVAL); /* neither listening nor connected */

    FAILS(cdp_init(&config), EALREADY);
    config.size = 3;
    FAILS(cdp_node_open(&config), EINVAL);
    config.size = sizeof config;
    config.bind = "everywhere";
    FAILS(cdp_node_open(&config), EINVAL);
    config.bind = "192.0.2.1:0"; /* an address of no machine */
    FAILS(cdp_node_open(&config), EADDRNOTAVAIL);
    CHECK(strstr(cdp_error(), "192.0.2.1") != NULL);
}

/* Each call in a state that does not fit. */
static void wrong_states(int s)
{
    struct cdp_addr addr, other = {0};
    struct cdp_close_result result;
    struct cdp_stats stats;
    char byte;
    int node = node_on_loopback(), value = 100;
    int listener = listener_on(node, CDP_STREAM, &addr);

    FAILS(cdp_send(s, "x", 1, 0), ENOTCONN);
    FAILS(cdp_recv(s, &byte, 1, 0), ENOTCONN);
    FAILS(cdp_flush(s), ENOTCONN);
    FAILS(cdp_shutdown(s), ENOTCONN);
    FAILS(cdp_abort(s), ENOTCONN);
    FAILS(cdp_stats(s, &stats, sizeof stats), ENOTCONN);
    FAILS(cdp_getpeername(s, &other), ENOTCONN);
    FAILS(cdp_close_result(s, 0, &result), ENOTCONN);
    FAILS(cdp_accept(s, NULL), EINVAL);

    FAILS(cdp_connect(listener, &addr), EINVAL);
    FAILS(cdp_listen(listener, 1), EINVAL);
    FAILS(cdp_bind(listener, &other), EINVAL);
    FAILS(cdp_send(listener, "x", 1, 0), ENOTCONN);
    FAILS(cdp_poll_fd(listener, CDP_WRITABLE), EINVAL);
    FAILS(cdp_setsockopt(listener, CDP_RECEIVE_SLOTS, &value, sizeof value), EINVAL);
    set_option(listener, CDP_NONBLOCK, 1);
    FAILS(cdp_accept(listener, NULL), EAGAIN);

    /* The port is taken: another listener on the same node is refused when it begins to listen. */
    int twin = cdp_socket_on(node, CDP_STREAM);
    struct cdp_addr same = {0};
    same.port = addr.port;
    CHECK(cdp_bind(twin, &same) == 0);
    FAILS(cdp_listen(twin, 1), EADDRINUSE);
    CHECK(cdp_close(twin) == 0);

    CHECK(cdp_connect(s, &addr) == 0);
    FAILS(cdp_connect(s, &addr), EISCONN);
    FAILS(cdp_listen(s, 1), EINVAL);
    FAILS(cdp_bind(s, &other), EINVAL);
    FAILS(cdp_send(s, "x", 1, CDP_TRUNC), EINVAL);
    FAILS(cdp_recv(s, &byte, 1, 64), EINVAL);
    FAILS(cdp_setsockopt(s, CDP_MSS, &value, sizeof value), EINVAL);
    FAILS(cdp_recv(s, &byte, 1, CDP_DONTWAIT), EAGAIN);

    /* Nobody listens there, and the other service. */
    int lost = cdp_socket(CDP_STREAM), datagram = cdp_socket(CDP_DATAGRAM);
    other = addr;
    other.port = addr.port == 5000 ? 5001 : 5000;
    FAILS(cdp_connect(lost, &other), ECONNREFUSED);
    FAILS(cdp_connect(datagram, &addr), EPROTOTYPE);
    CHECK(cdp_connect(lost, &addr) == 0); /* after a failure it may connect again */
    CHECK(cdp_close(lost) == 0);
    CHECK(cdp_close(datagram) == 0);

    CHECK(cdp_close(s) == 0);
    FAILS(cdp_close(s), EBADF);
    FAILS(cdp_send(s, "x", 1, 0), EBADF);
    CHECK(cdp_close(listener) == 0);
    FAILS(cdp_accept(listener, NULL), EBADF);
    CHECK(cdp_node_close(node, 1000) >= 0);
    FAILS(cdp_node_address(node, &addr), EBADF);
}

static void after_fork(void)
{
    int status = -1;
    pid_t child = fork();

    if (child == 0) {
        FAILS(cdp_socket(CDP_STREAM), ENOTSUP);
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

int main(void)
{
    CHECK(strcmp(cdp_error(), "") == 0);
    int s = cdp_socket(CDP_STREAM);
    CHECK(s > 0);
    bad_descriptors();
    bad_pointers(s);
    bad_arguments(s);
    wrong_states(s);
    after_fork();
    printf("wrong: ok\n");
    return 0;
}
