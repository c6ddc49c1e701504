"""tools/sass on listings written by hand (tests/tools/sass): which code is the hot one, what is under
way, what is counted, what a table calls worse."""
import struct
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools/sass"))
sys.dont_write_bytecode = True
import cubin  # noqa: E402
import gate  # noqa: E402
import listing  # noqa: E402
import measure  # noqa: E402
import names  # noqa: E402
import table  # noqa: E402

SM90 = measure.ARCHITECTURES["sm_90a"]
KERNEL = cubin.Kernel(symbol=1, registers=32, bound=256)


def row(name):
    found = listing.parse((HERE / "sass" / f"{name}.sass").read_text().splitlines())
    return measure.row(KERNEL, found[name], SM90)


class Rows(unittest.TestCase):
    def holds(self, name, **expected):
        got = row(name)
        self.assertEqual({k: got[k] for k in expected}, expected)

    def test_loads_before_the_first_use_are_under_way_together(self):
        # 11 instructions for 128 bytes of 32 threads, 4 KiB.
        self.holds("copy_loop", hot="loop", ld=16, st=16, reads=64, writes=64, slots=11 / 4,
                   flight=64 * 2048 / 1024, calls=0, mma=None, mix="lsu:8,alu:2,control:1")

    def test_loads_that_are_waited_for_at_once_are_not(self):
        self.holds("serial_loop", reads=32, writes=32, flight=16 * 2048 / 1024)

    def test_packs_are_hot_and_single_elements_are_not(self):
        # The device scalar, of which every thread reads the same, is not among the bytes.
        self.holds("pack_or_elements", hot="once", ld=16, reads=32, writes=16,
                   flight=32 * 2048 / 1024)

    def test_loads_ahead_of_products(self):
        self.holds("product_ahead", mma=4, lds=2, ratio=2.0, ahead=32)
        self.holds("product_behind", mma=2, lds=1, ratio=2.0, ahead=0)

    def test_groups_of_async_copies(self):
        self.holds("async_copies", mma=1, lds=1, ahead=32)

    def test_the_best_case_goes_around_a_call(self):
        self.holds("division", calls=0, slow=1, reads=4, writes=4, slots=11 * 4)

    def test_a_call_of_a_label_is_a_jump(self):
        self.holds("called_label", hot="loop", reads=16, writes=16, calls=0, slow=0)

    def test_the_innermost_loop_with_packs(self):
        self.holds("rows", hot="loop", ld=16, reads=16, writes=0, slots=4 * 32 / 16)

    def test_pipes(self):
        got = row("division")  # I2F and MUFU, 8 clocks each for 256 bytes
        self.assertEqual((got["pipe"], got["clocks"]), ("xu", 64.0))


class Threads(unittest.TestCase):
    def test_registers_are_given_out_in_eights(self):
        self.assertEqual(measure.threads_by_registers(32, SM90), 2048)
        self.assertEqual(measure.threads_by_registers(33, SM90), 1536)
        self.assertEqual(measure.threads_by_registers(222, SM90), 256)
        self.assertEqual(measure.threads_by_registers(255, SM90), 256)

    def test_a_block_that_does_not_fit_cannot_be_launched(self):
        self.assertEqual(measure.launchable(cubin.Kernel(1, registers=80), SM90), 768)
        self.assertEqual(measure.launchable(cubin.Kernel(1, registers=40), SM90), 1024)

    def test_resident(self):
        self.assertEqual(measure.resident(cubin.Kernel(1, registers=222, bound=256), SM90), 256)
        # 40 KiB and the system's own a block: five on an SM.
        wide = cubin.Kernel(1, registers=32, bound=128, shared=(40 << 10) + 1024)
        self.assertEqual(measure.resident(wide, SM90), 5 * 128)
        # 20,109 bytes and the system's 1,024 take 21,248, of which 228 KiB have ten.
        narrow = cubin.Kernel(1, registers=21, bound=115, shared=20109 + SM90.own_shared)
        self.assertEqual(measure.resident(narrow, SM90), 10 * 128)


class Names(unittest.TestCase):
    def test_short(self):
        scope = "void wt::cuda::(anonymous namespace)::"
        part = "wt::cuda::(anonymous namespace)::PointwisePart<3>, wt::pw::Add"
        for long, brief in {
            f"{scope}softmax_warp<float, 4, 32>(wt::SoftmaxForward<float>)":
                "softmax_warp<f32,4,32>",
            f"{scope}pointwise<wt::pw::Add, __nv_bfloat16>({part})": "add<bf16>",
            f"{scope}pointwise<wt::pw::Grad<wt::pw::GeluTanh, 0>, float>({part})":
                "gelu_tanh_backward<f32>",
            f"{scope}pointwise_naive<wt::pw::IsNan, float>({part})": "isnan_naive<f32>",
            f"{scope}rule_kernel<wt::detail::AdamwRule, float, 4>(int)": "adamw_step<f32,4>",
            f"{scope}rule_cohorts_kernel<wt::detail::SgdRule, float, 8>(int)":
                "sgd_step_cohorts<f32,8>",
            "wt::cuda::(anonymous namespace)::fill_words(unsigned char*, unsigned long, long)":
                "fill_words",
            f"{scope}reduce_rows<wt::red::LogSumExp, Typed<__half> >(Target)":
                "reduce_rows<log_sum_exp,f16>",
        }.items():
            self.assertEqual(names.short(long), brief)

    def test_naive_rungs_that_something_better_stands_above_are_no_defaults(self):
        all_of = ["softmax_naive<f32>", "softmax_naive<f64>", "softmax_warp<f32,4,8>",
                  "reduce_naive<sum,Floats>", "reduce_rows<sum,f32>", "reduce_naive<norm,f64>",
                  "channel_norm_naive<f32>"]
        self.assertEqual(names.defaults(all_of),
                         ["softmax_naive<f64>", "softmax_warp<f32,4,8>", "reduce_rows<sum,f32>",
                          "reduce_naive<norm,f64>", "channel_norm_naive<f32>"])


class Tables(unittest.TestCase):
    def changed(self, **columns):
        old = {"k<f32>": row("copy_loop")}
        new = {"k<f32>": {**old["k<f32>"], **columns}}
        return [(d.column, d.worse) for d in table.compare(old, new)]

    def test_worse(self):
        self.assertEqual(self.changed(), [])
        self.assertEqual(self.changed(ld=4), [("ld", True)])
        self.assertEqual(self.changed(resident=1024), [("resident", True)])
        self.assertEqual(self.changed(stack=8), [("stack", True)])
        self.assertEqual(self.changed(calls=1), [("calls", True)])
        self.assertEqual(self.changed(slots=3.5), [("slots", True)])
        self.assertEqual(self.changed(flight=64.0), [("flight", True)])

    def test_not_worse(self):
        self.assertEqual(self.changed(slots=2.0), [("slots", False)])
        self.assertEqual(self.changed(flight=160.0), [("flight", False)])
        # More registers with as many threads.
        self.assertEqual(self.changed(regs=31), [("regs", False)])
        # Another bound: other blocks.
        self.assertEqual(self.changed(bound=128, resident=1024),
                         [("bound", False), ("resident", False)])
        # A fiftieth is nothing.
        self.assertEqual(self.changed(slots=2.8), [])

    def test_what_is_written_is_read_back(self):
        rows = {"b<f32>": row("copy_loop"), "a<f32>": row("product_ahead")}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "t.txt")
            table.write(path, rows, gate.head_of("sm_90a", "V1.2"))
            back, head = table.read(path)
        self.assertEqual(list(back), ["a<f32>", "b<f32>"])
        self.assertEqual(table.compare(back, rows), [])
        self.assertTrue(head[0].endswith("ptxas V1.2."))

    def test_stack_frames_need_a_reason(self):
        with tempfile.TemporaryDirectory() as folder:
            allowed = Path(folder, "stack.txt")
            allowed.write_text("# comment\nsin<*> all 40 large angles\n"
                               "gone<*> sm_90a 8 once was\ncos<*> sm_80 40 elsewhere\n")
            rows = {"sin<f32>": {"stack": 32}, "sin<f64>": {"stack": 48}, "cos<f32>": {"stack": 32},
                    "add<f32>": {"stack": 0}}
            faults, unused = gate.stack_faults(rows, allowed, "sm_90a")
        self.assertEqual([f.split(":")[0] for f in faults], ["cos<f32>", "sin<f64>"])
        self.assertEqual(unused, ["gone<*>"])


class Cubins(unittest.TestCase):
    def test_control_bits(self):
        word = 5 << 41 | 2 << 46 | 7 << 49 | 0b100001 << 52
        code = struct.pack("<QQ", 0, word)
        self.assertEqual(cubin.control(code, 0), cubin.Control(waits=0b100001, sets=2))

    def test_records(self):
        data = struct.pack("<BBHII", 4, cubin.REGISTERS, 8, 3, 40)
        data += struct.pack("<BBH", 3, 0x1B, 255)
        self.assertEqual([(what, len(payload)) for what, payload in cubin.records(data)],
                         [(cubin.REGISTERS, 8), (0x1B, 0)])


if __name__ == "__main__":
    unittest.main()
