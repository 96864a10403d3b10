// Package thread yields processors to other threads of the operating system.
//
// Many kernels do not interrupt a running thread when another one becomes runnable on its processor, but only at the next
// tick, after up to 4 ms. The switches between goroutines do not change this, because they involve no call of the
// kernel. On a machine with few processors, this is the largest part of the latency of short commands beside long ones.
package thread
