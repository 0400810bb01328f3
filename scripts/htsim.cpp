// TCP flows over links and routes in csg-htsim, for scripts/htsim.sh. Reads what the example
// `beside describe` of fullpipe-sim prints; prints packets sent, and each flow's bytes on the wire
// in the second half of the time, as `beside run` does.
#include <cstdint>
#include <iostream>
#include <memory>
#include <vector>

#include "config.h"
#include "eventlist.h"
#include "network.h"
#include "pipe.h"
#include "queue.h"
#include "tcp.h"

namespace {

struct Hop {
    std::unique_ptr<Queue> queue;
    std::unique_ptr<Pipe> pipe;
};

struct Flow {
    TcpSrc* source;
    TcpSink* sink;
    uint64_t half_bytes;
};

// Notes each flow's bytes at half the time.
class Half : public EventSource {
public:
    Half(EventList& events, std::vector<Flow>& flows) : EventSource(events, "half"), flows(flows) {}
    void doNextEvent() override {
        for (auto& flow : flows) flow.half_bytes = flow.sink->_cumulative_ack;
    }

private:
    std::vector<Flow>& flows;
};

template <typename T> T read() {
    T value{};
    if (!(std::cin >> value)) {
        std::cerr << "not an experiment of `beside describe`\n";
        std::exit(2);
    }
    return value;
}

route_t* read_route(std::vector<Hop>& hops) {
    auto* route = new route_t();
    for (auto left = read<size_t>(); left > 0; left--) {
        auto& hop = hops.at(read<size_t>());
        if (hop.queue) route->push_back(hop.queue.get());
        route->push_back(hop.pipe.get());
    }
    return route;
}

} // namespace

int main() {
    auto& events = EventList::getTheEventList();
    const auto packet_bytes = read<int>();
    Packet::set_packet_size(packet_bytes);
    const simtime_picosec end = read<uint64_t>() * 1000;
    EventList::setEndtime(end);

    std::vector<Hop> hops(read<size_t>());
    for (auto& hop : hops) {
        const auto bits = read<uint64_t>();
        hop.pipe.reset(new Pipe(read<uint64_t>() * 1000, events));
        const auto packets = read<int64_t>();
        if (bits > 0) hop.queue.reset(new Queue(bits, packets * packet_bytes, events, nullptr));
    }

    // What its transport prints is no part of the comparison.
    std::cout.setstate(std::ios::badbit);
    TcpRtxTimerScanner scanner(timeFromMs(10), events);
    std::vector<Flow> flows(read<size_t>());
    for (auto& flow : flows) {
        const simtime_picosec start = read<uint64_t>() * 1000;
        const auto window = read<uint32_t>() * packet_bytes;
        const auto ssthresh = read<uint32_t>() * packet_bytes;
        flow = {new TcpSrc(nullptr, nullptr, events), new TcpSink(), 0};
        flow.source->set_ssthresh(ssthresh);
        if (window > 0) {
            flow.source->set_cwnd(window);
            flow.source->_maxcwnd = window;
        }
        scanner.registerTcp(*flow.source);
        auto* there = read_route(hops);
        there->push_back(flow.sink);
        auto* back = read_route(hops);
        back->push_back(flow.source);
        flow.source->connect(*there, *back, *flow.sink, start);
    }
    Half half(events, flows);
    EventList::sourceIsPending(half, end / 2);
    while (EventList::doNextEvent()) {
    }

    std::cout.clear();
    uint64_t packets = 0;
    for (auto& flow : flows) packets += flow.source->_packets_sent / packet_bytes;
    std::cout << packets << "\n";
    for (auto& flow : flows) std::cout << flow.sink->_cumulative_ack - flow.half_bytes << "\n";
}
