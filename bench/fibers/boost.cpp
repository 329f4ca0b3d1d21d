// Table 1 of the SCALE paper on Boost.Fiber: boost ROW WAITING ROUNDS, a line of JSON.
#include <boost/fiber/all.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace fibers = boost::fibers;

// Boost.Fiber has no semaphore; this is the usual one.
class Semaphore {
    fibers::mutex mutex;
    fibers::condition_variable condition;
    long permits = 0;

public:
    void post()
    {
        {
            std::lock_guard<fibers::mutex> lock(mutex);
            ++permits;
        }
        condition.notify_one();
    }

    void wait()
    {
        std::unique_lock<fibers::mutex> lock(mutex);
        condition.wait(lock, [this] { return permits > 0; });
        --permits;
    }
};

static fibers::fiber start(std::function<void()> body)
{
    // Pooled stacks, as ours are.
    static fibers::pooled_fixedsize_stack stacks(64 * 1024);
    return fibers::fiber(std::allocator_arg, stacks, std::move(body));
}

template <typename Body> static double timed(long operations, Body body)
{
    auto begin = std::chrono::steady_clock::now();
    body();
    std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
    return time.count() / static_cast<double>(operations);
}

static double measure(const char *row, long rounds)
{
    if (!strcmp(row, "mutex")) {
        fibers::mutex mutex;
        return timed(rounds, [&] {
            for (long i = 0; i < rounds; i++) {
                mutex.lock();
                mutex.unlock();
            }
        });
    }
    if (!strcmp(row, "semaphore")) {
        Semaphore semaphore;
        return timed(rounds, [&] {
            for (long i = 0; i < rounds; i++) {
                semaphore.post();
                semaphore.wait();
            }
        });
    }
    if (!strcmp(row, "yield")) {
        auto part = [rounds] {
            for (long i = 0; i < rounds / 2; i++)
                boost::this_fiber::yield();
        };
        return timed(rounds, [&] {
            auto other = start(part);
            part();
            other.join();
        });
    }
    if (!strcmp(row, "chain")) {
        constexpr long fibers_in_chain = 10;
        const long laps = rounds / fibers_in_chain;
        std::vector<Semaphore> turns(fibers_in_chain);
        Semaphore finished;
        std::vector<fibers::fiber> links;
        for (long place = 0; place < fibers_in_chain; place++)
            links.push_back(start([&, place] {
                for (long lap = 0; lap < laps; lap++) {
                    turns[place].wait();
                    if (place == fibers_in_chain - 1 && lap == laps - 1)
                        finished.post();
                    else
                        turns[(place + 1) % fibers_in_chain].post();
                }
            }));
        boost::this_fiber::yield();
        double ns = timed(laps * fibers_in_chain, [&] {
            turns[0].post();
            finished.wait();
        });
        for (auto &link : links)
            link.join();
        return ns;
    }
    if (!strcmp(row, "create"))
        return timed(rounds, [&] {
            for (long i = 0; i < rounds; i++)
                start([] {}).join();
        });
    std::exit(2);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    const long waiting = std::atol(argv[2]), rounds = std::atol(argv[3]);
    auto *gate = new Semaphore;
    for (long i = 0; i < waiting; i++)
        start([gate] { gate->wait(); }).detach();
    boost::this_fiber::yield();
    const double ns = measure(argv[1], rounds);
    std::printf("{\"program\": \"boost\", \"row\": \"%s\", \"waiting\": %ld, \"ns\": %.3f}\n", argv[1], waiting, ns);
    std::fflush(stdout);
    std::_Exit(0);
}
