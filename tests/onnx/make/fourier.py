"""Windows, MelWeightMatrix, DFT, STFT. Oracle: numpy's FFT in complex128; onnx.reference for MelWeightMatrix."""

import numpy as np
from onnx import TensorProto

from family import F16, F32, F64, scalar

ORACLE = "reference"
WINDOWS = {"HannWindow": (0.5, 0.5, 0), "HammingWindow": (25 / 46, 21 / 46, 0), "BlackmanWindow": (0.42, 0.5, 0.08)}


def make(family):
    windows(family)
    for bands, length, rate, low, high in (
        (8, 16, 8192, 0, 4096),
        (10, 64, 16000, 20, 7600),
        (40, 512, 16000, 0, 8000),
    ):
        inputs = [scalar(v, np.int64) for v in (bands, length, rate)] + [scalar(low, F32), scalar(high, F32)]
        family.case(f"melweightmatrix_{bands}_{length}", "MelWeightMatrix", inputs, 17, known=(0, 1, 2, 3, 4))
    for n in (1, 2, 5, 8, 12, 64):
        for opset in (17, 20):
            dft(family, n, opset)
    dft_axes(family)
    stft(family)


def windows(family):
    for op, (a, b, c) in WINDOWS.items():
        for periodic in (0, 1):
            for size in (1, 2, 10, 101) if periodic else (2, 10, 101):
                angle = 2 * np.pi * np.arange(size) / (size if periodic else size - 1)
                want = a - b * np.cos(angle) + c * np.cos(2 * angle)
                want[np.abs(want) < 1e-9] = 0
                for dtype, number in ((F32, TensorProto.FLOAT), (F64, TensorProto.DOUBLE), (F16, TensorProto.FLOAT16)):
                    name = f"{op.lower()}_{size}_periodic{periodic}_{dtype.__name__}"
                    attributes = {"periodic": periodic, "output_datatype": number}
                    family.case(name, op, [scalar(size, np.int64)], 17, [want.astype(dtype)], known=(0,), **attributes)


def parts(z):
    return np.stack([z.real, z.imag], -1)


def numbers(x):
    """The complex numbers of an operand with real and imaginary parts."""
    return x[..., 0].astype(F64) + 1j * x[..., 1].astype(F64)


def signal(family, n):
    """An operand of length n along axis 1; drawn again while a float32 sum cancels, which is not what is tested."""
    for _ in range(2000):
        real, pairs = family.normal(2, n, 3, 1), family.normal(2, n, 3, 2)
        z = numbers(pairs)
        spectra = (
            np.fft.fft(real[..., 0], axis=1),
            np.fft.fft(z, axis=1),
            np.fft.ifft(z, axis=1),
            np.fft.fft(z, n + 3, axis=1),
        )
        magnitudes = [np.abs(parts(s)) for s in spectra]
        if n > 12 or not any(((m < 3e-3) & (m > 1e-9)).any() for m in magnitudes):
            break
    return real, pairs


def dft(family, n, opset):
    real, pairs = signal(family, n)
    x, z = real[..., 0].astype(F64), numbers(pairs)

    def case(name, a, want, length=None, **attributes):
        inputs = [a, None if length is None else scalar(length, np.int64)]
        if opset == 17:
            attributes["axis"] = 1
        else:
            inputs.append(scalar(-3, np.int64))
        family.case(
            f"dft_opset{opset}_{name}_{n}", "DFT", inputs, opset, [want.astype(F32)], known=(1, 2), **attributes
        )

    case("real", real, parts(np.fft.fft(x, axis=1)))
    case("complex", pairs, parts(np.fft.fft(z, axis=1)))
    case("onesided", real, parts(np.fft.rfft(x, axis=1)), onesided=1)
    case("inverse", pairs, parts(np.fft.ifft(z, axis=1)), inverse=1)
    case("longer", pairs, parts(np.fft.fft(z, n + 3, axis=1)), n + 3)
    if n > 2:
        case("shorter", real, parts(np.fft.fft(x, n - 2, axis=1)), n - 2)
    if n > 1:
        case("onesided_inverse", pairs, np.fft.irfft(z, axis=1)[..., None], inverse=1, onesided=1)
        odd = 2 * n - 1
        case("onesided_inverse_odd", pairs, np.fft.irfft(z, odd, axis=1)[..., None], odd, inverse=1, onesided=1)


def dft_axes(family):
    x = family.normal(3, 4, 8, 2)
    want = [parts(np.fft.fft(numbers(x), axis=axis)) for axis in (0, 2)]
    family.case("dft_opset20_default_axis", "DFT", [x], 20, [want[1].astype(F32)])
    family.case("dft_opset20_axis0", "DFT", [x, None, scalar(0, np.int64)], 20, [want[0].astype(F32)], known=(2,))
    family.case("dft_opset17_float64", "DFT", [x.astype(F64)], 17, [want[1]], axis=2)


def frames(x, step, length):
    count = (x.shape[1] - length) // step + 1
    return np.stack([x[:, k * step : k * step + length] for k in range(count)], 1)


def stft(family):
    def case(name, step, window, length, onesided):
        transform = np.fft.rfft if onesided else np.fft.fft
        size = len(window) if length is None else length
        want = transform(frames(x[..., 0].astype(F64), step, size) * (1 if window is None else window), axis=2)
        inputs = [x, scalar(step, np.int64), window, None if length is None else scalar(length, np.int64)]
        family.case(
            f"stft_{name}_onesided{onesided}",
            "STFT",
            inputs,
            17,
            [parts(want).astype(F32)],
            known=(1, 3),
            onesided=onesided,
        )

    x, window = family.normal(2, 100, 1), np.hanning(16).astype(F32)
    for onesided in (0, 1):
        case("window", 8, window, None, onesided)
        case("length", 7, None, 20, onesided)
        case("window_and_length", 5, window, 16, onesided)
    pairs = family.normal(2, 50, 2)
    want = parts(np.fft.fft(frames(numbers(pairs), 10, 20), axis=2)).astype(F32)
    inputs = [pairs, scalar(10, np.int64), None, scalar(20, np.int64)]
    family.case("stft_complex", "STFT", inputs, 17, [want], known=(1, 3), onesided=0)
