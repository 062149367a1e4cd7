"""NVIDIA devices by NVML. Each figure is asked by itself: 'not supported', a lost device, no driver are answers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pynvml

from nodes.messages import DeviceReport, DeviceSeat

log = logging.getLogger(__name__)
T = TypeVar("T")
_UNTELLABLE = (pynvml.NVMLError, UnicodeDecodeError)
_FOREIGN_SHARE = 0.05  # of a device's memory: more than a driver keeps for itself
_FOREIGN_BYTES = 512 * 2**20


class Nvidia:
    """Keeps the last good list, so that a device which NVML no longer names is told as lost rather than forgotten."""

    def __init__(self) -> None:
        self._ready = False
        self._known: dict[str, DeviceReport] = {}

    def report(self) -> list[DeviceReport]:
        try:
            self._start()
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            self._stop()
            return self._lost(set(), f"NVML: {error}")
        found: list[DeviceReport] = []
        for index in range(count):
            found += self._at(index)
        for device in found:
            self._known[device.uuid] = device
        return found + self._lost({device.uuid for device in found}, "NVML does not name this device any more")

    def environment(self, seats: Sequence[DeviceSeat]) -> dict[str, str]:
        """By UUID, in the order of the bus; a launch without GPUs sees none."""
        mine = [seat.uuid for seat in seats if seat.uuid.startswith(("GPU-", "MIG-"))]
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(mine)}

    def _start(self) -> None:
        if not self._ready:
            pynvml.nvmlInit()
            self._ready = True

    def _stop(self) -> None:
        """So that the next look starts anew: a driver that comes back is found."""
        if self._ready:
            _told(pynvml.nvmlShutdown)
        self._ready = False

    def _lost(self, present: set[str], trouble: str) -> list[DeviceReport]:
        return [
            DeviceReport(
                index=0, uuid=uuid, kind=old.kind, memory_bytes=old.memory_bytes, is_healthy=False, trouble=trouble
            )
            for uuid, old in self._known.items()
            if uuid not in present
        ]

    def _at(self, index: int) -> list[DeviceReport]:
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            uuid = _text(pynvml.nvmlDeviceGetUUID(handle))
        except _UNTELLABLE as error:
            log.warning("GPU %d: %s", index, error)
            return []
        parts = _mig_parts(handle)
        return [_read(part, parent=handle) for part in parts] if parts else [_read(handle, uuid=uuid)]


def _mig_parts(handle: Any) -> list[Any]:
    mode = _told(pynvml.nvmlDeviceGetMigMode, handle)
    if mode is None or mode[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
        return []
    most = _told(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0
    parts = (_told(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index) for index in range(most))
    return [part for part in parts if part is not None]


def _read(handle: Any, *, uuid: str | None = None, parent: Any = None) -> DeviceReport:
    """Figures of one device or MIG part; temperature and power belong to the whole card."""
    uuid = uuid or _text(_told(pynvml.nvmlDeviceGetUUID, handle) or "")
    memory = _told(pynvml.nvmlDeviceGetMemoryInfo, handle)
    rates = _told(pynvml.nvmlDeviceGetUtilizationRates, handle)
    card = parent if parent is not None else handle
    milliwatts = _told(pynvml.nvmlDeviceGetPowerUsage, card)
    trouble = _sickness(card)
    return DeviceReport(
        index=0,
        uuid=uuid,
        kind=_text(_told(pynvml.nvmlDeviceGetName, handle) or "GPU").removeprefix("NVIDIA ")[:64],
        memory_bytes=memory.total if memory is not None else 0,
        is_healthy=not trouble,
        trouble=trouble,
        utilisation=rates.gpu / 100 if rates is not None else None,
        memory_used_bytes=memory.used if memory is not None else None,
        temperature_celsius=_told(pynvml.nvmlDeviceGetTemperature, card, pynvml.NVML_TEMPERATURE_GPU),
        power_watts=milliwatts / 1000 if milliwatts is not None else None,
    )


def _sickness(handle: Any) -> str:
    """A lost device refuses everything in the same words; one question that every device must answer tells."""
    try:
        pynvml.nvmlDeviceGetMemoryInfo(handle)
    except pynvml.NVMLError as error:
        if error.value in (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED, pynvml.NVML_ERROR_UNKNOWN):
            return str(error)[:300]
    return ""


def mark_foreign_use(devices: Sequence[DeviceReport], given: set[str]) -> list[DeviceReport]:
    """A device whose memory somebody else uses, while no launch of ours has it, is not given away."""
    return [_if_foreign(device) if device.uuid not in given else device for device in devices]


def _if_foreign(device: DeviceReport) -> DeviceReport:
    used = device.memory_used_bytes or 0
    if not device.is_healthy or used <= max(_FOREIGN_BYTES, device.memory_bytes * _FOREIGN_SHARE):
        return device
    text = f"busy outside: {used / 2**30:.1f} GiB are used by processes that are no job of this portal"
    return device.model_copy(update={"is_healthy": False, "trouble": text})


def _told(ask: Callable[..., T], *arguments: Any) -> T | None:
    try:
        return ask(*arguments)
    except _UNTELLABLE:
        return None


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
