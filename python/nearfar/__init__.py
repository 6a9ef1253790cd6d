# SPDX-License-Identifier: MIT OR Apache-2.0
"""Phases and metrics of a Python program, for `nearfar record -- python app.py`.

    import nearfar

    with nearfar.phase("solve"):
        nearfar.metric("unknowns", n)

    @nearfar.phase("assemble")
    def assemble(): ...

Nothing is loaded: the functions are those of nearfar's agent in this process, if it is there. Without it a phase costs
the call of two empty functions.
"""

import contextlib as _contextlib
import ctypes as _ctypes
import os as _os
import sys as _sys

__all__ = ["active", "begin", "end", "metric", "phase"]


def _find():
    """The agent's functions, or None."""
    try:
        process = _ctypes.PyDLL(None)  # without letting other Python threads run: the calls take less than that
        return {
            "begin": process.nearfar_agent_begin,
            "end": process.nearfar_agent_end,
            "phase_begin": process.nearfar_agent_phase_begin_at,
            "phase_end": process.nearfar_agent_phase_end_at,
            "metric": process.nearfar_agent_metric,
        }
    except (OSError, AttributeError):
        return None


_agent = _find()
if _agent is not None:
    for _name, _types in {
        "begin": [],
        "end": [],
        "phase_begin": [_ctypes.c_char_p, _ctypes.c_char_p],
        "phase_end": [_ctypes.c_char_p, _ctypes.c_char_p],
        "metric": [_ctypes.c_char_p, _ctypes.c_double],
    }.items():
        _agent[_name].argtypes = _types
        _agent[_name].restype = None


def active():
    """Whether nearfar is recording this process."""
    return _agent is not None


def _text(name):
    # A zero would end the name for C.
    return str(name).replace("\0", "?").encode("utf-8", "replace")


def _place(depth):
    frame = _sys._getframe(depth + 1)
    return f"{_os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}".encode("utf-8", "replace")


class phase(_contextlib.ContextDecorator):
    """A named part of the work of this thread, as a context manager or a decorator."""

    __slots__ = ("_name",)

    def __init__(self, name):
        self._name = _text(name) if _agent is not None else None

    def _recreate_cm(self):
        return self

    def __enter__(self):
        if _agent is not None:
            _agent["phase_begin"](self._name, _place(1))
        return self

    def __exit__(self, *_):
        if _agent is not None:
            _agent["phase_end"](self._name, _place(1))
        return False


def metric(name, value):
    """A number of the program's own."""
    if _agent is not None:
        _agent["metric"](_text(name), float(value))


def begin():
    """The region of interest begins: what the report is about."""
    if _agent is not None:
        _agent["begin"]()


def end():
    """The region of interest ends."""
    if _agent is not None:
        _agent["end"]()
