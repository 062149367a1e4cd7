"""Own scripts that several stories use."""

# One point and one line a step, a checkpoint every ten steps by the first rank; goes on from the newest one.
STEPPER = """
import os, time
import trainyard

total, pause = int(os.environ["STEPS"]), float(os.environ.get("PAUSE", "0.05"))
found = trainyard.latest_checkpoint()
first = found.step + 1 if found else 1
if found:
    print("goes on after step", (found.path / "state").read_text(), flush=True)
for step in range(first, total + 1):
    trainyard.report(step, loss=1.0 / step)
    print("step", step, flush=True)
    asked, why = trainyard.wants_checkpoint(), trainyard.should_stop()
    if trainyard.rank() == 0 and (step % 10 == 0 or asked or why):
        with trainyard.checkpoint(step) as folder:
            (folder / "state").write_text(str(step))
    elif asked:
        trainyard.checkpoint_is_saved_elsewhere()
    if why:
        print("stops:", why, flush=True)
        break
    time.sleep(pause)
"""
