"""Runtimes that break one rule each. A module of its own, because what a runtime's module imports is one of them."""

import numpy as np

from edgewise.registry import Availability
from edgewise.runtime.arrays import own_copies
from edgewise.runtime.fake import FakeRuntime, FakeSession
from edgewise.testing import write_fake_model


class Broken(FakeRuntime):
    """The fake engine with a session that a test breaks."""

    session: type[FakeSession] = FakeSession

    def load(self, path, options):
        session = super().load(path, options)
        session.__class__ = self.session
        return session


class KeepsNoCopy(FakeSession):
    def bind(self, arrays):
        own_copies(arrays, self.inputs)
        self._arrays, self._results = list(arrays), []
        self.invoke = self._infer

    def _begin(self):
        self._results = []
        super()._begin()


class HandsOutItsOwn(FakeSession):
    def _begin(self):
        old, self._results = self._results or getattr(self, "_old", []), []
        super()._begin()
        for index, array in enumerate(old):
            array[...] = self._results[index]
            self._results[index] = array
        self._old = self._results

    def read_outputs(self):
        return self._results


class IgnoresInputs(FakeSession):
    def _make(self, index, spec):
        return np.zeros(spec.shape, spec.dtype)


class TakesAnything(FakeSession):
    def bind(self, arrays):
        super().bind(
            [np.resize(array, spec.shape).astype(spec.dtype) for array, spec in zip(arrays, self.inputs, strict=False)]
        )


class RaisesSomethingElse(FakeSession):
    def bind(self, arrays):
        try:
            super().bind(arrays)
        except ValueError as error:
            raise KeyError("x") from error


class ClosesOnce(FakeSession):
    def close(self):
        del self._arrays


class WrongType(FakeSession):
    def read_outputs(self):
        return [array.astype("float64") for array in super().read_outputs()]


class NoEffective(FakeSession):
    @property
    def effective(self):
        return {"provider": "cpu"}

    @effective.setter
    def effective(self, value):
        pass


class Never(Broken):
    def availability(self):
        return Availability(False, "it is not installed", "install it")


class NeverSaysWhy(Broken):
    def availability(self):
        return Availability(False)


class WrongVersion(Broken):
    def availability(self):
        return Availability(True, version="2")


class Vanished(Broken):
    def import_engine(self):
        raise ImportError("no engine")


class ImportsEarly(Broken):
    def availability(self):
        import onnx

        return Availability(True, version=onnx.__name__ and "1")


class LoadsAnything(Broken):
    def load(self, path, options):
        if path.name.startswith("bad"):
            path = write_fake_model(path)
        return super().load(path, options)


class ShoutsName(Broken):
    name = "Fake Engine"


class TellsLayers(FakeRuntime):
    """The fake engine with a profile that a test changes."""

    change = staticmethod(lambda session, profile: profile)

    def load(self, path, options):
        session = super().load(path, options)
        if options.profile and hasattr(session, "profile_layers"):
            tell = session.profile_layers
            session.profile_layers = lambda inferences: self.change(session, tell(inferences))
        return session
