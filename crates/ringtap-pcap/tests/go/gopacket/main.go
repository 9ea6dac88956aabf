// Prints each packet that gopacket shows of an interface until SIGINT, and asks for its counters meanwhile from another thread.
package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"time"

	"github.com/google/gopacket/pcap"
)

func main() {
	handle, err := pcap.OpenLive(os.Args[1], 65535, true, 100*time.Millisecond)
	if err == nil {
		err = handle.SetBPFFilter("not ip6")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stderr, "capturing")
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	var ending atomic.Bool
	asking := make(chan error)
	go func() {
		for {
			select {
			case <-interrupted:
				ending.Store(true)
				asking <- nil
				return
			case <-time.After(2 * time.Millisecond):
				if _, err := handle.Stats(); err != nil {
					asking <- err
					return
				}
			}
		}
	}()
	out := bufio.NewWriter(os.Stdout)
	for !ending.Load() {
		data, info, err := handle.ReadPacketData()
		if err == pcap.NextErrorTimeoutExpired {
			out.Flush()
			continue
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Fprintln(out, info.Length, info.CaptureLength, hex.EncodeToString(data))
	}
	out.Flush()
	if err := <-asking; err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	handle.Close()
}
