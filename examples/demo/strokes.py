"""Digits as pen strokes: shapes with variants for training, and ten others, drawn once, that the demo shows.

A stroke is a list of points in a unit square, x to the right and y down, through which a smooth curve runs."""

import numpy as np


def ring(cx, cy, rx, ry, begin, turn, steps=12):
    """Points of an ellipse: `begin` and `turn` in degrees, 0 at the top, clockwise."""
    t = np.deg2rad(begin + np.linspace(0, turn, steps))
    return [(cx + rx * np.sin(a), cy - ry * np.cos(a)) for a in t]


# Per digit, several ways in which people write it.
SHAPES = {
    0: [[ring(.5, .5, .30, .45, 0, 360)], [ring(.5, .5, .38, .42, -30, 375)], [ring(.5, .5, .24, .46, 20, 350)]],
    1: [[[(.5, .05), (.5, .95)]], [[(.32, .25), (.52, .06), (.52, .95)]], [[(.60, .05), (.42, .95)]],
        [[(.35, .22), (.52, .06), (.52, .93)], [(.3, .94), (.72, .94)]]],
    2: [[[(.22, .28), (.32, .10), (.52, .05), (.72, .14), (.76, .32), (.62, .55), (.40, .75), (.2, .94)], [(.2, .94),
         (.8, .92)]],
        [[(.2, .22), (.45, .05), (.75, .2), (.62, .52), (.3, .82), (.22, .92), (.32, .84), (.5, .9), (.8, .94)]],
        [[(.24, .18), (.5, .06), (.74, .18), (.72, .42), (.5, .66), (.22, .93)], [(.22, .93), (.78, .93)]]],
    3: [[[(.24, .14), (.5, .05), (.72, .18), (.68, .38), (.45, .48), (.70, .58), (.76, .78), (.52, .95), (.22, .86)]],
        [[(.24, .07), (.74, .07)], [(.74, .07), (.48, .40)], [(.48, .40), (.74, .52), (.76, .76), (.5, .95), (.22, .84)]],
        [[(.2, .1), (.6, .08), (.7, .25), (.4, .46)], [(.4, .46), (.72, .55), (.74, .84), (.46, .95), (.2, .9)]]],
    4: [[[(.62, .05), (.18, .64), (.84, .64)], [(.64, .36), (.64, .95)]],
        [[(.28, .06), (.24, .50), (.5, .56), (.76, .48)], [(.74, .06), (.70, .95)]],
        [[(.66, .95), (.66, .05), (.16, .68), (.86, .68)]]],
    5: [[[(.74, .06), (.30, .06)], [(.30, .06), (.26, .44)], [(.26, .44), (.54, .38), (.76, .56), (.70, .84),
         (.46, .95), (.2, .85)]],
        [[(.28, .06), (.28, .42), (.58, .42), (.74, .64), (.62, .90), (.24, .92)], [(.28, .06), (.76, .08)]]],
    6: [[[(.66, .06), (.40, .28), (.26, .60), (.34, .88), (.56, .95), (.74, .78), (.66, .58), (.44, .54), (.28, .70)]],
        [[(.58, .05), (.3, .4), (.25, .7)], ring(.5, .72, .25, .22, -90, 360)],
        [[(.70, .12), (.48, .06), (.28, .35), (.25, .72), (.48, .95), (.72, .76), (.56, .54), (.28, .64)]]],
    7: [[[(.2, .08), (.80, .08)], [(.80, .08), (.56, .50), (.42, .95)]],
        [[(.2, .1), (.78, .08)], [(.78, .08), (.46, .95)], [(.34, .50), (.74, .48)]],
        [[(.22, .22), (.22, .08), (.78, .08)], [(.78, .08), (.50, .46), (.46, .95)]]],
    8: [[ring(.5, .27, .21, .21, 0, 360), ring(.5, .71, .26, .24, 0, 360)],
        [[(.68, .14), (.46, .05), (.3, .2), (.42, .42), (.66, .58), (.72, .8), (.5, .95), (.28, .8), (.36, .58),
         (.62, .38), (.70, .18), (.6, .08)]],
        [ring(.5, .25, .17, .19, 10, 360), ring(.5, .70, .22, .26, -20, 370)]],
    9: [[ring(.48, .28, .24, .22, 80, -360), [(.72, .26), (.72, .60), (.62, .95)]],
        [ring(.47, .30, .22, .24, 60, -350), [(.70, .12), (.68, .95)]],
        [[(.72, .2), (.5, .06), (.28, .24), (.4, .46), (.66, .40), (.73, .2), (.72, .6), (.56, .93), (.3, .9)]]],
}

# The demo's own ten: drawn apart from the shapes above, one each.
SAMPLES = {
    0: [[(.58, .10), (.36, .12), (.22, .36), (.24, .66), (.40, .90), (.62, .86), (.76, .62), (.74, .32), (.60, .12),
         (.50, .09)]],
    1: [[(.38, .26), (.46, .18), (.55, .08), (.54, .36), (.51, .66), (.50, .93)]],
    2: [[(.25, .30), (.30, .13), (.50, .07), (.69, .16), (.71, .35), (.57, .58), (.36, .78), (.23, .91), (.46, .87),
         (.79, .90)]],
    3: [[(.27, .17), (.46, .07), (.67, .14), (.68, .33), (.47, .46)], [(.47, .46), (.69, .54), (.74, .74), (.57, .93),
         (.33, .92), (.23, .83)]],
    4: [[(.52, .08), (.36, .36), (.19, .60), (.48, .60), (.82, .57)], [(.63, .33), (.61, .62), (.58, .94)]],
    5: [[(.71, .09), (.50, .08), (.33, .11), (.30, .28), (.27, .45), (.49, .40), (.69, .50), (.73, .70), (.57, .90),
         (.37, .93), (.22, .87)]],
    6: [[(.60, .07), (.42, .22), (.30, .44), (.25, .67), (.34, .87), (.52, .93), (.69, .83), (.70, .65), (.55, .56),
         (.38, .60), (.28, .72)]],
    7: [[(.21, .13), (.40, .10), (.60, .11), (.79, .09)], [(.79, .09), (.66, .34), (.53, .62), (.44, .93)]],
    8: [[(.63, .15), (.47, .08), (.33, .19), (.38, .36), (.57, .50), (.70, .66), (.66, .85), (.49, .93), (.31, .83),
         (.33, .63), (.52, .46), (.66, .32), (.63, .15)]],
    9: [[(.70, .20), (.55, .08), (.34, .14), (.27, .33), (.41, .47), (.60, .42), (.71, .22)], [(.71, .22), (.70, .45),
         (.64, .72), (.55, .93)]],
}


def curve(points, per_span=5):
    """A Catmull-Rom spline through the points, as points close together."""
    p = np.asarray(points, float)
    if len(p) == 2:
        return p
    p = np.concatenate([[2 * p[0] - p[1]], p, [2 * p[-1] - p[-2]]])
    t = np.linspace(0, 1, per_span, endpoint=False)[:, None]
    out = []
    for a, b, c, d in zip(p, p[1:], p[2:], p[3:]):
        out.append(b + t * (c - a) / 2 + t**2 * (2 * a - 5 * b + 4 * c - d) / 2 + t**3 * (3 * b - a - 3 * c + d) / 2)
    return np.concatenate(out + [p[-2:-1]])


def draw(lines, thickness):
    """Lines in pixels onto a 28x28 page with soft edges; thickness in pixels."""
    y, x = np.mgrid[0:28, 0:28]
    page = np.stack([x, y], -1).reshape(-1, 1, 2).astype(np.float32)
    begin = np.concatenate([line[:-1] for line in lines]).astype(np.float32)
    along = np.concatenate([line[1:] - line[:-1] for line in lines]).astype(np.float32)
    t = ((page - begin) * along).sum(-1) / np.maximum((along**2).sum(-1), 1e-9)
    gap = page - begin - np.clip(t, 0, 1)[..., None] * along
    distance = np.sqrt((gap**2).sum(-1)).min(1)
    return np.clip(thickness / 2 + 0.5 - distance, 0, 1).reshape(28, 28).astype(np.float32)


def batch(count, rng):
    """`count` distorted digits and their labels."""
    images, labels = np.empty((count, 28, 28), np.float32), rng.integers(0, 10, count)
    for i, label in enumerate(labels):
        variants = SHAPES[int(label)]
        angle, shear = np.deg2rad(rng.normal(0, 7)), rng.normal(0, 0.12)
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]) @ np.array([[1, 0], [shear, 1]])
        scale = rng.uniform(15, 24) * np.array([rng.uniform(0.7, 1.05), 1])
        shift = 13.5 + rng.uniform(-2.5, 2.5, 2)
        lines = []
        for stroke in variants[rng.integers(len(variants))]:
            points = np.asarray(stroke) + rng.normal(0, 0.022, (len(stroke), 2))
            lines.append(curve((points - 0.5) @ turn * scale + shift))
        image = draw(lines, rng.uniform(1.0, 3.4))
        images[i] = np.clip(image * rng.uniform(0.7, 1) + rng.normal(0, 0.03, (28, 28)) * (rng.random() < 0.3), 0, 1)
    return images, labels


def sample(digit):
    """One of the demo's ten images, with the 256 levels that its file can hold."""
    lines = [curve((np.asarray(stroke) - 0.5) * [20, 20] + 13.5) for stroke in SAMPLES[digit]]
    return (np.round(draw(lines, 2.2) * 255) / 255).astype(np.float32)


def save(path, image):
    """path.pgm to look at and path.npy, (1,1,28,28) float32 in 0..1, to feed."""
    with open(path + ".pgm", "wb") as file:
        file.write(b"P5 28 28 255\n" + np.round(image * 255).astype(np.uint8).tobytes())
    np.save(path + ".npy", image.reshape(1, 1, 28, 28))
