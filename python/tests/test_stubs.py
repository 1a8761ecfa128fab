"""The stubs say what the module has: every name, and every parameter."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import phalanx
from phalanx import _phalanx

STUBS = ast.parse((Path(phalanx.__file__).parent / "_phalanx.pyi").read_text())


def _parameters(function: ast.FunctionDef) -> list[str]:
    arguments = function.args
    return [one.arg for one in arguments.posonlyargs + arguments.args + arguments.kwonlyargs if one.arg not in ("self", "cls")]


def _of_module(thing: object) -> list[str]:
    signature = inspect.signature(thing)  # pyright: ignore[reportArgumentType]
    return [name for name in signature.parameters if name not in ("self", "cls")]


def _public(names: list[str]) -> set[str]:
    return {name for name in names if not name.startswith("_")}


def test_the_module_and_its_stubs_have_the_same_names() -> None:
    named = [one.name for one in STUBS.body if isinstance(one, ast.ClassDef | ast.FunctionDef)]
    assert _public(named) == _public(dir(_phalanx))


def test_functions_have_the_parameters_of_their_stubs() -> None:
    for one in STUBS.body:
        if isinstance(one, ast.FunctionDef):
            assert _of_module(getattr(_phalanx, one.name)) == _parameters(one), one.name


def test_classes_have_the_methods_of_their_stubs() -> None:
    for stub in STUBS.body:
        if not isinstance(stub, ast.ClassDef) or stub.name.startswith("_"):
            continue
        real = getattr(_phalanx, stub.name)
        methods = {one.name: one for one in stub.body if isinstance(one, ast.FunctionDef)}
        assert _public(list(methods)) == _public(list(vars(real))), stub.name
        for name, method in methods.items():
            is_property = any(isinstance(mark, ast.Name) and mark.id == "property" for mark in method.decorator_list)
            if is_property:
                assert inspect.isgetsetdescriptor(getattr(real, name)), f"{stub.name}.{name}"
            elif name == "__new__":
                assert _of_module(real) == _parameters(method), stub.name
            elif not name.startswith("__"):
                assert _of_module(getattr(real, name)) == _parameters(method), f"{stub.name}.{name}"
