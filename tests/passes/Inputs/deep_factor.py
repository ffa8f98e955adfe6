"""A product whose factor is scaled 100000 times over."""
n = 100000
print("graph @deep(%x: i8[4, 8]) {\n  %w = constant dtype=i8 shape=[8, 2] values=[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]")
print("  %wf = cast %w dtype=f32\n  %c0 = cast %x dtype=f32")
for i in range(n):
    print(f"  %c{i + 1} = mul %c{i}, 0.5")
print(f"  %y = matmul %c{n}, %wf\n  return y = %y\n}}")
